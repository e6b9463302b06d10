// Which checkpoint a path means, and which ones are refused with which reason.
#include "worker/checkpoint/resume_source.h"

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"
#include "tests/worker/checkpoint/fake_checkpoint.h"
#include "worker/checkpoint/checkpoint_writer.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

using ::lr::testing::Fixture;
using ::lr::testing::IsOk;
using ::lr::testing::SmallSnapshot;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::lr::testing::WriteBytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

void SaveStep(const TempDirectory& output, int64_t step) {
  SingleProcessGroup group;
  CheckpointWriter writer({output.path(), "run-1", 0, {}}, group);
  ASSERT_THAT(writer.Save(step, SmallSnapshot(step)), IsOk());
}

/// A writable copy of a fixture's step directory.
fs::path CopyOf(const std::string& run, const TempDirectory& folder) {
  const fs::path target = folder / kCheckpointsFolder;
  fs::copy(Fixture("lerobot/" + run + "/checkpoints"), target, fs::copy_options::recursive);
  return target / "000003";
}

TEST(ResumeSourceTest, EveryWayToNameACheckpointLeadsToIt) {
  const TempDirectory output;
  SaveStep(output, 4);
  SaveStep(output, 8);
  const fs::path checkpoints = output / kCheckpointsFolder;
  const fs::path step = fs::canonical(checkpoints / "000008");
  for (const fs::path& path : {output.path(),
                               checkpoints,
                               checkpoints / "last",
                               checkpoints / "last/",
                               checkpoints / "000008",
                               checkpoints / "last/pretrained_model",
                               checkpoints / "last/pretrained_model/",
                               checkpoints / "last/pretrained_model/train_config.json",
                               checkpoints / "000008/pretrained_model/config.json",
                               checkpoints / "000004/../last"}) {
    EXPECT_EQ(*LocateCheckpoint(path), step) << path;
  }
  EXPECT_EQ(LocateCheckpoint(checkpoints / "000004")->filename(), "000004");
}

TEST(ResumeSourceTest, LastAsATextFileWorksInEveryPath) {
  const TempDirectory folder;
  const fs::path step = fs::canonical(CopyOf("single", folder));
  const fs::path checkpoints = folder / kCheckpointsFolder;
  ASSERT_TRUE(fs::is_regular_file(checkpoints / "last"));
  for (const fs::path& path : {folder.path(),
                               checkpoints,
                               checkpoints / "last",
                               checkpoints / "last/pretrained_model",
                               checkpoints / "last/pretrained_model/train_config.json"}) {
    EXPECT_EQ(*LocateCheckpoint(path), step) << path;
  }
}

TEST(ResumeSourceTest, PathsToNothingAreNamed) {
  const TempDirectory folder;
  EXPECT_THAT(LocateCheckpoint(folder / "nowhere"),
              StatusIs(StatusCode::kNotFound, HasSubstr("nowhere")));
  EXPECT_THAT(LocateCheckpoint(folder.path()),
              StatusIs(StatusCode::kNotFound, HasSubstr("is no checkpoint: expected")));
  fs::create_directories(folder / "checkpoints");
  fs::create_symlink("000009", folder / "checkpoints/last");
  EXPECT_THAT(LocateCheckpoint(folder / "checkpoints/last"),
              StatusIs(StatusCode::kNotFound, HasSubstr("last")));
  EXPECT_THAT(LocateCheckpoint(folder.path()),
              StatusIs(StatusCode::kNotFound, HasSubstr("no checkpoint at")));
}

TEST(ResumeSourceTest, OpensOursAndPythons) {
  const TempDirectory output;
  SaveStep(output, 4);
  // SmallSnapshot has no optimizer: with a manifest that is what the checkpoint consists of.
  const Result<ResumeSource> ours = OpenResumeSource(output.path(), VerifyLevel::kFull);
  ASSERT_THAT(ours, IsOk());
  EXPECT_EQ(ours->training.step, 4);
  EXPECT_FALSE(ours->from_python);
  EXPECT_FALSE(ours->has_scheduler);

  const Result<ResumeSource> python = OpenResumeSource(
      Fixture("lerobot/single/checkpoints/last/pretrained_model/train_config.json"));
  ASSERT_THAT(python, IsOk());
  EXPECT_EQ(python->training.step, 3);
  EXPECT_EQ(python->training.dp_world_size, 1);
  EXPECT_EQ(python->training.batch_size, 2);
  EXPECT_TRUE(python->from_python);
  EXPECT_TRUE(python->has_scheduler);
}

TEST(ResumeSourceTest, NonSharded06CheckpointsAreAccepted) {
  const TempDirectory folder;
  const fs::path step = CopyOf("single", folder);
  WriteBytes(step / kTrainingStepPath, R"({"step": 3, "num_processes": 2})");
  const Result<ResumeSource> source = OpenResumeSource(step);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ(source->training.dp_world_size, 2);
}

TEST(ResumeSourceTest, WeightsAloneCannotBeResumed) {
  const TempDirectory folder;
  const fs::path step = CopyOf("single", folder);
  fs::remove_all(step / kTrainingStateFolder);
  EXPECT_THAT(
      OpenResumeSource(step),
      StatusIs(StatusCode::kNotFound,
               AllOf(HasSubstr("has no training_state folder"), HasSubstr("--policy.path="))));
}

TEST(ResumeSourceTest, SaysWhatIsInShards) {
  // checkpoint_format=safetensors: gathered weights, sharded optimizer.
  const TempDirectory gathered;
  const fs::path step = CopyOf("single", gathered);
  fs::remove(step / kOptimizerStatePath);
  fs::remove(step / kOptimizerGroupsPath);
  WriteBytes(step / kOptimizerShardsFolder / "__0_0.distcp", "shard");
  WriteBytes(step / kOptimizerShardsFolder / ".metadata", "pickle");
  Result<ResumeSource> source = OpenResumeSource(step);
  ASSERT_THAT(source, IsOk());
  EXPECT_TRUE(source->has_model_file);
  EXPECT_FALSE(source->has_model_shards);
  EXPECT_TRUE(source->has_optimizer_shards);
  // checkpoint_format=dcp: no gathered weights either.
  fs::remove(step / kModelPath);
  WriteBytes(step / kModelShardsFolder / "__0_0.distcp", "shard");
  WriteBytes(step / kModelShardsFolder / ".metadata", "pickle");
  source = OpenResumeSource(step);
  ASSERT_THAT(source, IsOk());
  EXPECT_FALSE(source->has_model_file);
  EXPECT_TRUE(source->has_model_shards);
}

TEST(ResumeSourceTest, DeclaredShardsThatAreMissingAreNamedWithTheConverter) {
  const TempDirectory folder;
  const fs::path step = CopyOf("single", folder);
  fs::remove(step / kModelPath);
  WriteBytes(step / kTrainingStepPath,
             R"({"step": 3, "parallelism": {"dp_replicate": 1, "dp_shard": 2}})");
  EXPECT_THAT(OpenResumeSource(step),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("pytorch_model_fsdp_0"),
                             HasSubstr("lerobot-convert-dcp --checkpoint_dir="))));
}

TEST(ResumeSourceTest, Sharded06CheckpointsAreRefusedByName) {
  const TempDirectory folder;
  const fs::path step = CopyOf("single", folder);
  WriteBytes(step / kTrainConfigPath, R"({"parallelism": {"dp_shard": 2}})");
  EXPECT_THAT(OpenResumeSource(step), IsOk());  // what ran, training_step.json says: not sharded
  WriteBytes(step / kTrainingStepPath, R"({"step": 3, "num_processes": 2})");
  EXPECT_THAT(OpenResumeSource(step),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("LeRobot 0.6.x or earlier")));

  const TempDirectory other;
  const fs::path pickled = CopyOf("single", other);
  fs::rename(pickled / kOptimizerStatePath, pickled / "training_state/optimizer.bin");
  EXPECT_THAT(OpenResumeSource(pickled),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("LeRobot 0.6.x or earlier")));
}

TEST(ResumeSourceTest, EveryDamageIsFoundAndNamed) {
  const auto damaged = [](const char* path,
                          const std::function<void(const fs::path&)>& damage,
                          const std::string& reason) {
    const TempDirectory output;
    SaveStep(output, 4);
    damage(output / kCheckpointsFolder / "000004" / path);
    EXPECT_THAT(OpenResumeSource(output.path(), VerifyLevel::kFull),
                StatusIs(StatusCode::kDataLoss, HasSubstr(reason)))
        << path;
  };
  const auto flip_last_byte = [](const fs::path& path) {
    std::string bytes = ::lr::testing::ReadBytes(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    WriteBytes(path, bytes);
  };
  damaged(
      kModelPath, [](const fs::path& path) { fs::remove(path); }, "model.safetensors is missing");
  damaged(
      kModelPath,
      [](const fs::path& path) { fs::resize_file(path, 100); },
      "model.safetensors has 100 bytes");
  damaged(kModelPath, flip_last_byte, "has checksum");
  damaged(kRngStatePath, flip_last_byte, "has checksum");
  damaged(
      kManifestPath,
      [](const fs::path& path) { fs::resize_file(path, 10); },
      "manifest.json cannot be read");
}

TEST(ResumeSourceTest, APythonCheckpointIsParsedBecauseItHasNoManifest) {
  const TempDirectory folder;
  const fs::path step = CopyOf("single", folder);
  fs::resize_file(step / kModelPath, fs::file_size(step / kModelPath) - 1);
  EXPECT_FALSE(OpenResumeSource(step).ok());
  EXPECT_THAT(OpenResumeSource(step).status().message(),
              AllOf(HasSubstr("is damaged"), HasSubstr("cut short")));
}

TEST(ResumeSourceTest, TheNewestCompleteOneIsChosenAndDamagedOnesAreSkippedWithReasons) {
  const TempDirectory output;
  EXPECT_THAT(OpenNewestCheckpoint(output.path()),
              StatusIs(StatusCode::kNotFound, HasSubstr("there is no checkpoint")));
  for (const int64_t step : {2, 4, 6}) {
    SaveStep(output, step);
  }
  EXPECT_EQ(OpenNewestCheckpoint(output.path())->training.step, 6);
  fs::resize_file(output / "checkpoints/000006" / kModelPath, 10);
  EXPECT_EQ(OpenNewestCheckpoint(output.path())->training.step, 4);
  fs::remove_all(output / "checkpoints/000004/training_state");
  fs::remove(output / "checkpoints/000002" / kRngStatePath);
  EXPECT_THAT(OpenNewestCheckpoint(output.path()),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("000006: pretrained_model/model.safetensors has 10 bytes"),
                             HasSubstr("000004: "),
                             HasSubstr("000002: "))));
}

}  // namespace
}  // namespace lr::worker
