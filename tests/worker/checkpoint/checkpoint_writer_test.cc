// Publication by all ranks: what is on disk after success, after each kind of failure, and after
// several saves.
#include "worker/checkpoint/checkpoint_writer.h"

#include <atomic>
#include <fstream>
#include <future>
#include <map>

#include "common/contract/checkpoint_scan.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"
#include "tests/worker/checkpoint/fake_checkpoint.h"
#include "worker/checkpoint/dcp/dcp_directory.h"
#include "worker/checkpoint/dcp/dcp_tensor.h"
#include "worker/checkpoint/resume_source.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

using ::lr::testing::FakeCheckpointGroup;
using ::lr::testing::IsOk;
using ::lr::testing::NamesIn;
using ::lr::testing::ReadBytes;
using ::lr::testing::RunFakeRanks;
using ::lr::testing::SmallSnapshot;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::lr::testing::WriteBytes;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

fs::path Checkpoints(const TempDirectory& output) {
  return output / kCheckpointsFolder;
}

CheckpointWriterOptions Options(const TempDirectory& output, int64_t keep = 0) {
  return {output.path(), "run-1", keep, {}};
}

/// The step whose tensors a checkpoint holds; fails on a mixture.
double StepOfTensors(const fs::path& directory) {
  const Result<SafetensorsFile> file = SafetensorsFile::Open(directory / kModelPath);
  EXPECT_THAT(file, IsOk());
  const double a = file->Load("a")->min().item<double>();
  EXPECT_EQ(file->Load("b")->max().item<double>(), a);
  return a;
}

/// Saves one step alone and waits for everything.
Result<PublishedCheckpoint> SaveAlone(const CheckpointWriterOptions& options, int64_t step) {
  SingleProcessGroup group;
  CheckpointWriter writer(options, group);
  Result<PublishedCheckpoint> published = writer.Save(step, SmallSnapshot(step));
  writer.WaitForCleanup();
  return published;
}

CheckpointWriterOptions FailingAt(const TempDirectory& output, const std::string& operation) {
  CheckpointWriterOptions options = Options(output);
  options.fault_point = [operation](std::string_view reached) {
    return reached == operation
               ? ResourceExhausted("cannot write '{}': No space left on device", reached)
               : Status();
  };
  return options;
}

TEST(CheckpointWriterTest, PublishesACompleteDirectoryAndSwitchesLast) {
  const TempDirectory output;
  const Result<PublishedCheckpoint> published = SaveAlone(Options(output), 5);
  ASSERT_THAT(published, IsOk());
  EXPECT_EQ(published->directory, Checkpoints(output) / "000005");
  EXPECT_GT(published->bytes, 15000U);
  EXPECT_THAT(published->notes, IsEmpty());
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000005", "last"));
  EXPECT_EQ(fs::read_symlink(Checkpoints(output) / "last"), "000005");
  EXPECT_THAT(NamesIn(published->directory), ElementsAre("pretrained_model", "training_state"));
  EXPECT_THAT(NamesIn(published->directory / kPretrainedFolder),
              ElementsAre("config.json",
                          "model.safetensors",
                          "policy_preprocessor.json",
                          "policy_preprocessor_step_3_normalizer_processor.safetensors",
                          "train_config.json"));
  EXPECT_THAT(NamesIn(published->directory / kTrainingStateFolder),
              ElementsAre("manifest.json", "rng_state.safetensors", "training_step.json"));
  EXPECT_THAT(VerifyCheckpoint(published->directory, VerifyLevel::kFull), IsOk());
}

TEST(CheckpointWriterTest, WritesInLeRobotsOrderAndTheManifestLast) {
  const TempDirectory output;
  std::vector<std::string> operations;
  CheckpointWriterOptions options = Options(output);
  options.fault_point = [&](std::string_view operation) {
    operations.emplace_back(operation);
    return Status();
  };
  ASSERT_THAT(SaveAlone(options, 5), IsOk());
  EXPECT_THAT(
      operations,
      ElementsAre(
          "create temporary",
          "create pretrained_model",
          "write pretrained_model/config.json",
          "write pretrained_model/model.safetensors",
          "write pretrained_model/train_config.json",
          "write pretrained_model/policy_preprocessor_step_3_normalizer_processor.safetensors",
          "write pretrained_model/policy_preprocessor.json",
          "flush pretrained_model",
          "create training_state",
          "write training_state/training_step.json",
          "write training_state/rng_state.safetensors",
          "write training_state/manifest.json",
          "flush training_state",
          "flush .",
          "take name",
          "flush checkpoints",
          "switch last",
          "rename last",
          "flush checkpoints"));
}

TEST(CheckpointWriterTest, AllRanksTakePartAndOnlyTheMainOneWrites) {
  const TempDirectory output;
  RunFakeRanks(3, [&](FakeCheckpointGroup& group) {
    CheckpointWriter writer(Options(output), group);
    const Status begun =
        writer.Begin(7, group.rank() == 0 ? SmallSnapshot(7) : CheckpointSnapshot{});
    EXPECT_THAT(begun, IsOk());
    EXPECT_TRUE(writer.in_progress());
    std::optional<PublishedCheckpoint> published;
    while (!published) {  // the step thread's polling at its step boundaries
      Result<std::optional<PublishedCheckpoint>> polled = writer.Poll();
      ASSERT_THAT(polled, IsOk());
      published = *polled;
    }
    EXPECT_FALSE(writer.in_progress());
    EXPECT_EQ(published->directory, Checkpoints(output) / "000007");
    EXPECT_EQ(published->step, 7);
  });
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000007", "last"));
}

TEST(CheckpointWriterTest, RanksAtDifferentStepsDoNotStartASave) {
  const TempDirectory output;
  RunFakeRanks(2, [&](FakeCheckpointGroup& group) {
    CheckpointWriter writer(Options(output), group);
    const int64_t step = 7 + group.rank();
    EXPECT_THAT(writer.Begin(step, SmallSnapshot(step)),
                StatusIs(StatusCode::kFailedPrecondition,
                         HasSubstr("rank 1 is at step 8, rank 0 saves step 7")));
    EXPECT_FALSE(writer.in_progress());
  });
}

TEST(CheckpointWriterTest, OneRanksFailureAbandonsTheSaveOnAllRanks) {
  const TempDirectory output;
  ASSERT_THAT(SaveAlone(Options(output), 1), IsOk());
  RunFakeRanks(3, [&](FakeCheckpointGroup& group) {
    CheckpointWriter writer(Options(output), group);
    if (group.rank() == 2) {
      group.FailAt(2);  // the agreement after the write
    }
    EXPECT_THAT(writer.Save(2, group.rank() == 0 ? SmallSnapshot(2) : CheckpointSnapshot{}),
                StatusIs(StatusCode::kUnavailable,
                         AllOf(HasSubstr("step 2 not saved"), HasSubstr("rank 2"))));
  });
  EXPECT_EQ(fs::read_symlink(Checkpoints(output) / "last"), "000001");
  EXPECT_THAT(NamesIn(Checkpoints(output)),
              ElementsAre("000001", StartsWith("000002.tmp-"), "last"));
}

/// One rank's part of a save with a sharded folder: a [3, 2] tensor over the ranks (the last of
/// four has no rows), full of the step.
CheckpointSnapshot ShardedSnapshot(int64_t step, int rank, int world) {
  CheckpointSnapshot snapshot = rank == 0 ? SmallSnapshot(step) : CheckpointSnapshot{};
  const DcpPlace place{rank, world, 0, 1};
  const DcpRows rows = RowsOfShard(3, rank, world);
  const DcpEntry weight{"model.w",
                        {std::string("model"), std::string("w")},
                        at::full({rows.count, 2}, static_cast<float>(step)),
                        {3, 2},
                        true};
  snapshot.shards.push_back({kModelShardsFolder, DcpSave::Create({weight}, place).value()});
  return snapshot;
}

TEST(CheckpointWriterTest, EveryRankWritesItsShardsAndTheManifestNamesThemAll) {
  for (const int world : {1, 2, 4}) {
    const TempDirectory output;
    RunFakeRanks(world, [&](FakeCheckpointGroup& group) {
      CheckpointWriter writer(Options(output), group);
      const Result<PublishedCheckpoint> published =
          writer.Save(7, ShardedSnapshot(7, group.rank(), world));
      EXPECT_THAT(published, IsOk());
      EXPECT_EQ(published.ok() && published->bytes > 0, group.rank() == 0);
    });
    const fs::path step = Checkpoints(output) / "000007";
    EXPECT_THAT(VerifyCheckpoint(step, VerifyLevel::kFull), IsOk());
    const Result<CheckpointListing> listing = ListCheckpointFiles(step);
    ASSERT_THAT(listing, IsOk());
    ASSERT_TRUE(listing->manifest);
    // Everything but the manifest itself is in the manifest.
    EXPECT_EQ(listing->manifest->files.size() + 1, listing->files.size());
    Result<DcpDirectory> shards = DcpDirectory::Open(step / kModelShardsFolder);
    ASSERT_THAT(shards, IsOk());
    EXPECT_TRUE(at::equal(ReadDcpTensor(*shards, "model.w").value(), at::full({3, 2}, 7.0F)));
  }
}

TEST(CheckpointWriterTest, AShardThatCannotBeWrittenAbandonsTheSaveOnAllRanks) {
  const TempDirectory output;
  ASSERT_THAT(SaveAlone(Options(output), 1), IsOk());
  for (const std::string operation : {"write shard of pretrained_model/pytorch_model_fsdp_0",
                                      "write metadata of pretrained_model/pytorch_model_fsdp_0"}) {
    RunFakeRanks(2, [&](FakeCheckpointGroup& group) {
      const bool fails = group.rank() == (operation.starts_with("write shard") ? 1 : 0);
      CheckpointWriter writer(fails ? FailingAt(output, operation) : Options(output), group);
      EXPECT_THAT(writer.Save(2, ShardedSnapshot(2, group.rank(), 2)),
                  StatusIs(StatusCode::kResourceExhausted,
                           AllOf(HasSubstr("step 2"), HasSubstr("No space left on device"))));
      EXPECT_FALSE(writer.in_progress());
    });
    EXPECT_EQ(*ReadLast(Checkpoints(output)), "000001");
    EXPECT_FALSE(fs::exists(Checkpoints(output) / "000002"));
  }
}

TEST(CheckpointWriterTest, ARankThatDoesNotSeeTheFolderSaysSo) {
  const TempDirectory output;
  const TempDirectory elsewhere;
  RunFakeRanks(2, [&](FakeCheckpointGroup& group) {
    CheckpointWriter writer(Options(group.rank() == 0 ? output : elsewhere), group);
    EXPECT_THAT(writer.Save(2, ShardedSnapshot(2, group.rank(), 2)),
                StatusIs(StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("rank 1"), HasSubstr("all hosts of the run share"))));
  });
}

TEST(CheckpointWriterTest, PollingNeverWaitsForAnyRanksDisk) {
  const TempDirectory output;
  std::promise<void> released;
  const std::shared_future<void> gate = released.get_future().share();
  std::atomic<int> polls{0};
  RunFakeRanks(2, [&](FakeCheckpointGroup& group) {
    CheckpointWriterOptions options = Options(output);
    if (group.rank() == 1) {  // a slow disk
      options.fault_point = [&](std::string_view) {
        gate.wait();
        return Status();
      };
    }
    CheckpointWriter writer(options, group);
    ASSERT_THAT(writer.Begin(2, ShardedSnapshot(2, group.rank(), 2)), IsOk());
    std::optional<PublishedCheckpoint> published;
    while (!published) {
      Result<std::optional<PublishedCheckpoint>> polled = writer.Poll();
      ASSERT_THAT(polled, IsOk());
      published = *polled;
      if (group.rank() == 0 && ++polls == 10) {
        EXPECT_FALSE(published);
        released.set_value();
      }
    }
  });
  EXPECT_GE(polls, 10);
  EXPECT_THAT(VerifyCheckpoint(Checkpoints(output) / "000002"), IsOk());
}

/// How many durable operations the first or a second save of the small checkpoint performs.
int CountOperations(bool second) {
  const TempDirectory output;
  if (second) {
    EXPECT_THAT(SaveAlone(Options(output), 1), IsOk());
  }
  CheckpointWriterOptions options = Options(output);
  auto count = std::make_shared<int>(0);
  // Publication ends with the flush behind the renaming of `last`; what follows is housekeeping.
  options.fault_point = [count, reached = std::make_shared<int>(0)](std::string_view operation) {
    ++*reached;  // shared: the writer keeps several copies of this function
    if (operation == "rename last") {
      *count = *reached + 1;
    }
    return Status();
  };
  EXPECT_THAT(SaveAlone(options, 2), IsOk());
  return *count;
}

TEST(CheckpointWriterTest, EveryFailingOperationLeavesThePreviousCheckpointInForce) {
  const int operations = CountOperations(/*second=*/true);
  EXPECT_GE(operations, 12);
  for (int n = 0; n < operations; ++n) {
    const TempDirectory output;
    ASSERT_THAT(SaveAlone(Options(output), 1), IsOk());
    CheckpointWriterOptions options = Options(output);
    options.fault_point = [n, reached = std::make_shared<int>(0)](std::string_view operation) {
      return (*reached)++ == n ? ResourceExhausted("{}: No space left on device", operation)
                               : Status();
    };
    const Result<PublishedCheckpoint> published = SaveAlone(options, 2);
    SCOPED_TRACE(published.status().message());
    EXPECT_THAT(published,
                StatusIs(StatusCode::kResourceExhausted, HasSubstr("No space left on device")));
    EXPECT_EQ(*ReadLast(Checkpoints(output)), "000001");
    EXPECT_THAT(VerifyCheckpoint(Checkpoints(output) / "000001", VerifyLevel::kFull), IsOk());
    EXPECT_FALSE(fs::exists(Checkpoints(output) / "000002"));
    // Training goes on, and the next save of the run works and cleans up.
    ASSERT_THAT(SaveAlone(Options(output), 3), IsOk());
    EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000001", "000003", "last"));
  }
}

TEST(CheckpointWriterTest, ErrorsOfTheFileSystemNameThePath) {
  const TempDirectory output;
  WriteBytes(output / kCheckpointsFolder, "a file where the folder should be");
  EXPECT_THAT(SaveAlone(Options(output), 1),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr(Checkpoints(output).string())));
  fs::remove(output / kCheckpointsFolder);
  fs::create_directories(Checkpoints(output) / kLastName);
  EXPECT_THAT(
      SaveAlone(Options(output), 1),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("neither a link nor a text file")));
}

TEST(CheckpointWriterTest, KeepsAtMostTwoFailedSavesAndOnlyItsOwnRunRemovesThem) {
  const TempDirectory output;
  for (int64_t step = 1; step <= 4; ++step) {
    EXPECT_FALSE(SaveAlone(FailingAt(output, "write training_state/manifest.json"), step).ok());
  }
  EXPECT_THAT(NamesIn(Checkpoints(output)), SizeIs(2));
  CheckpointWriterOptions other = Options(output);
  other.run_id = "another run";
  ASSERT_THAT(SaveAlone(other, 5), IsOk());
  EXPECT_THAT(NamesIn(Checkpoints(output)),
              ElementsAre(StartsWith("00000"), StartsWith("00000"), "000005", "last"));
  ASSERT_THAT(SaveAlone(Options(output), 6), IsOk());
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000005", "000006", "last"));
}

TEST(CheckpointWriterTest, SavingAPublishedStepAgainExchangesIt) {
  const TempDirectory output;
  ASSERT_THAT(SaveAlone(Options(output), 5), IsOk());
  WriteBytes(Checkpoints(output) / "000005/training_state/stale", "x");
  const Result<PublishedCheckpoint> published = SaveAlone(Options(output), 5);
  ASSERT_THAT(published, IsOk());
  EXPECT_THAT(published->notes, ElementsAre("checkpoint 000005 was saved again and replaced"));
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000005", "last"));
  EXPECT_FALSE(fs::exists(published->directory / "training_state/stale"));
  EXPECT_THAT(VerifyCheckpoint(published->directory, VerifyLevel::kFull), IsOk());
}

TEST(CheckpointWriterTest, AnUnfinishedDirectoryInTheWayIsRenamedAsideAndKept) {
  const TempDirectory output;
  WriteBytes(Checkpoints(output) / "000005/pretrained_model/config.json", "{}");
  const Result<PublishedCheckpoint> published = SaveAlone(Options(output), 5);
  ASSERT_THAT(published, IsOk());
  EXPECT_THAT(published->notes,
              ElementsAre(HasSubstr(
                  "an unfinished directory 000005 was in the way and is now 000005.old-")));
  EXPECT_THAT(NamesIn(Checkpoints(output)),
              ElementsAre("000005", StartsWith("000005.old-"), "last"));
}

TEST(CheckpointWriterTest, ALaterFailureRestoresTheStepThatWasExchanged) {
  const TempDirectory output;
  ASSERT_THAT(SaveAlone(Options(output), 5), IsOk());
  WriteBytes(Checkpoints(output) / "000005/training_state/mark", "first");
  EXPECT_FALSE(SaveAlone(FailingAt(output, "switch last"), 5).ok());
  EXPECT_EQ(ReadBytes(Checkpoints(output) / "000005/training_state/mark"), "first");
}

TEST(CheckpointWriterTest, AFirstSaveThatCannotBeConfirmedLeavesNoLast) {
  const TempDirectory output;
  CheckpointWriterOptions options = Options(output);
  options.fault_point = [last = CountOperations(/*second=*/false),
                         reached = std::make_shared<int>(0)](std::string_view) {
    return ++*reached == last ? Unavailable("Input/output error") : Status();
  };
  EXPECT_THAT(SaveAlone(options, 5),
              StatusIs(StatusCode::kUnavailable, HasSubstr("step 5 not published")));
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre(StartsWith("000005.tmp-")));
}

TEST(CheckpointWriterTest, RetentionKeepsTheNewestAndNeverFewerThanTwo) {
  const TempDirectory output;
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_THAT(SaveAlone(Options(output, 3), step), IsOk());
  }
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000003", "000004", "000005", "last"));
  ASSERT_THAT(SaveAlone(Options(output, 1), 6), IsOk());
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000005", "000006", "last"));
}

TEST(CheckpointWriterTest, RetentionSparesPinnedCheckpoints) {
  const TempDirectory output;
  ASSERT_THAT(SaveAlone(Options(output, 2), 1), IsOk());
  WriteBytes(Checkpoints(output) / "000001/.pinned", "");
  for (int64_t step = 2; step <= 4; ++step) {
    ASSERT_THAT(SaveAlone(Options(output, 2), step), IsOk());
  }
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000001", "000003", "000004", "last"));
}

TEST(CheckpointWriterTest, ReplacesATextFileLast) {
  const TempDirectory output;
  fs::create_directories(Checkpoints(output));
  WriteBytes(Checkpoints(output) / kLastName, "000001\n");
  ASSERT_THAT(SaveAlone(Options(output), 5), IsOk());
  EXPECT_EQ(*ReadLast(Checkpoints(output)), "000005");
}

TEST(CheckpointWriterTest, OnlyOneSaveAtATime) {
  const TempDirectory output;
  SingleProcessGroup group;
  CheckpointWriter writer(Options(output), group);
  EXPECT_THAT(writer.Finish(), StatusIs(StatusCode::kFailedPrecondition, "no save is in progress"));
  ASSERT_THAT(writer.Begin(1, SmallSnapshot(1)), IsOk());
  EXPECT_THAT(writer.Begin(2, SmallSnapshot(2)),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("step 1 is still in progress")));
  ASSERT_THAT(writer.Finish(), IsOk());
  ASSERT_THAT(writer.Save(2, SmallSnapshot(2)), IsOk());
}

TEST(CheckpointWriterTest, ASnapshotIsIndependentOfLaterTraining) {
  const TempDirectory output;
  SingleProcessGroup group;
  CheckpointWriter writer(Options(output), group);
  CheckpointContents contents;
  contents.step.step = 4;
  const at::Tensor weight = at::full({8}, 4.0);
  contents.model = {{"a", weight}, {"b", weight}};  // tied
  contents.rng = CaptureRngState(PythonRngState::Seeded(1));
  ASSERT_THAT(writer.Begin(4, TakeSnapshot(contents)), IsOk());
  weight.fill_(99.0);
  ASSERT_THAT(writer.Finish(), IsOk());
  const Result<SafetensorsFile> file =
      SafetensorsFile::Open(Checkpoints(output) / "000004" / kModelPath);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->names(), ElementsAre("a"));
  EXPECT_EQ(file->metadata().at("b"), "a");
  EXPECT_EQ(file->Load("a")->max().item<double>(), 4.0);
}

TEST(CheckpointWriterTest, AWriterDestroyedInTheMiddlePublishesNothing) {
  const TempDirectory output;
  SingleProcessGroup group;
  {
    CheckpointWriter writer(Options(output), group);
    ASSERT_THAT(writer.Begin(1, SmallSnapshot(1)), IsOk());
  }
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre(StartsWith("000001.tmp-")));
  ASSERT_THAT(SaveAlone(Options(output), 2), IsOk());
  EXPECT_EQ(StepOfTensors(Checkpoints(output) / "last"), 2.0);
  EXPECT_THAT(NamesIn(Checkpoints(output)), ElementsAre("000002", "last"));
}

}  // namespace
}  // namespace lr::worker
