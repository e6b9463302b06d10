// Conversions of recorded checkpoints: equal to what LeRobot's converter made, refused when
// damaged, usable after an end at any point.
#include "tools/lr_convert_dcp/conversion.h"

#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/contract/checkpoint_scan.h"
#include "common/io/atomic_file.h"
#include "tests/support/dcp_maker.h"
#include "tests/support/status_matchers.h"
#include "tools/lr_convert_dcp/inspection.h"
#include "worker/checkpoint/checkpoint_check.h"
#include "worker/checkpoint/safetensors_header_file.h"

namespace lr {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSharded[] = "model.model.encoder.layers.0.linear1.weight";

std::string BytesOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path Recorded(const std::string& name) {
  return fs::path(LR_TEST_DATA) / "checkpoints" / name;
}

class ConversionTest : public ::testing::Test {
 protected:
  ConversionTest() {
    fs::remove_all(folder_);
    fs::create_directories(step_.parent_path());
    fs::copy(Recorded("lerobot/shard4_dcp/checkpoints/000003"), step_, fs::copy_options::recursive);
  }

  ~ConversionTest() override { fs::remove_all(folder_); }

  static ConversionOptions Options(bool delete_shards) {
    ConversionOptions options;
    options.delete_shards = delete_shards;
    options.progress = [](std::string_view, uint64_t) { return [](uint64_t) {}; };
    return options;
  }

  Result<Conversion> Run(bool delete_shards = false) const {
    LR_ASSIGN(const CheckpointPlace place, LocatePlace(step_));
    return Convert(place, Options(delete_shards));
  }

  /// As the trainer writes it.
  void WriteManifest() const {
    CheckpointManifest manifest;
    manifest.step = 3;
    manifest.checksum_algorithm = worker::kChecksumAlgorithm;
    const CheckpointListing listing = ListCheckpointFiles(step_).value();
    for (const auto& [path, size] : listing.files) {
      manifest.files.push_back({path, size, worker::ChecksumOfFile(step_ / path).value()});
    }
    ASSERT_THAT(WriteFileAtomic((step_ / kManifestPath).string(), FormatManifest(manifest)),
                IsOk());
  }

  bool IsLikeLeRobots() const {
    return BytesOf(output_) == BytesOf(Recorded("lerobot/shard4_dcp/converted_model.safetensors"));
  }

  /// Nothing but what was there and the output.
  void ExpectNoLitter() const {
    for (const auto& entry : fs::directory_iterator(step_ / kPretrainedFolder)) {
      const std::string name = entry.path().filename().string();
      EXPECT_THAT(name, AllOf(Not(HasSubstr(".tmp-")), Not(HasSubstr(".del-"))));
    }
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("convert_{}", getpid());
  const fs::path step_ = folder_ / "checkpoints/000003";
  const fs::path shards_ = step_ / kModelShardsFolder;
  const fs::path output_ = step_ / kModelPath;
};

TEST_F(ConversionTest, EqualsLeRobotsByteForByteFromEveryLevel) {
  fs::create_symlink("000003", folder_ / "checkpoints/last");
  for (const fs::path& given : {step_,
                                step_ / kPretrainedFolder,
                                shards_,
                                folder_ / "checkpoints/last",
                                folder_ / "checkpoints/last/pretrained_model",
                                folder_}) {
    fs::remove(output_);
    const auto place = LocatePlace(given);
    ASSERT_THAT(place, IsOk());
    EXPECT_EQ(place->step, step_);
    const auto converted = Convert(*place, Options(false));
    ASSERT_THAT(converted, IsOk());
    EXPECT_TRUE(IsLikeLeRobots()) << given;
    EXPECT_EQ(converted->output, output_);
    EXPECT_EQ(converted->tensors, 62U);
  }
  EXPECT_TRUE(fs::exists(shards_ / ".metadata"));
  ExpectNoLitter();
}

TEST_F(ConversionTest, EqualsTheGatheredFileOfTheSameSave) {
  const fs::path both = Recorded("lerobot/hsdp2x2_both/checkpoints/000003/pretrained_model");
  fs::copy(both, folder_ / "both", fs::copy_options::recursive);
  const fs::path output = folder_ / "both/model.safetensors";
  fs::remove(output);
  ASSERT_THAT(Convert({folder_ / "both", std::nullopt}, Options(true)), IsOk());
  EXPECT_EQ(BytesOf(output), BytesOf(both / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "both/pytorch_model_fsdp_0"));
}

/// Adapter-only shards and shards of everything hold the same adapter.
TEST_F(ConversionTest, BothFormsOfAdapterShardsGiveOneFile) {
  std::vector<std::string> files;
  for (const char* form : {"adapter_only", "everything"}) {
    const fs::path place = folder_ / form;
    fs::copy(Recorded("dcp/peft_fsdp2") / form, place, fs::copy_options::recursive);
    const auto converted = Convert({place, std::nullopt}, Options(false));
    ASSERT_THAT(converted, IsOk());
    EXPECT_EQ(converted->output, place / "adapter_model.safetensors");
    EXPECT_THAT(converted->notes, Contains(HasSubstr("adapter_config.json")));
    files.push_back(BytesOf(converted->output));
  }
  EXPECT_EQ(files[0], files[1]);
  // The recorded file has other names ("model." in front) but the same data in the same order.
  const fs::path recorded = Recorded("dcp/peft_fsdp2/adapter_only_expected.safetensors");
  const auto data = [](const std::string& bytes, const fs::path& path) {
    return bytes.substr(worker::ReadSafetensorsHeader(path)->data_start);
  };
  EXPECT_EQ(data(files[0], folder_ / "adapter_only/adapter_model.safetensors"),
            data(BytesOf(recorded), recorded));
}

TEST_F(ConversionTest, TheCheckpointStaysCompleteWithoutItsShards) {
  WriteManifest();
  ASSERT_THAT(Run(), IsOk());
  EXPECT_THAT(worker::VerifyCheckpoint(step_, worker::VerifyLevel::kFull), IsOk());
  const auto again = Run(true);
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->was_there) << "the manifest vouches for it";
  EXPECT_TRUE(again->deleted_shards);
  EXPECT_FALSE(fs::exists(shards_));
  EXPECT_THAT(worker::VerifyCheckpoint(step_, worker::VerifyLevel::kFull), IsOk());
  EXPECT_EQ(DecideWork(LookAt(LocatePlace(step_).value()), "", false).work, Work::kNothing);
  EXPECT_TRUE(IsLikeLeRobots());
  ExpectNoLitter();
}

TEST_F(ConversionTest, AnEmptyOrWrongFileIsNotTaken) {
  std::ofstream(output_).close();
  WriteManifest();
  const auto converted = Run();
  ASSERT_THAT(converted, IsOk());
  EXPECT_FALSE(converted->was_there);
  EXPECT_TRUE(IsLikeLeRobots());
  EXPECT_THAT(worker::VerifyCheckpoint(step_, worker::VerifyLevel::kFull), IsOk());
}

TEST_F(ConversionTest, DamagedShardsLeaveEverythingAsItWas) {
  const auto refused = [&](StatusCode code, const char* reason) {
    EXPECT_THAT(Run(true), StatusIs(code, HasSubstr(reason)));
    EXPECT_FALSE(fs::exists(output_));
    EXPECT_TRUE(fs::exists(shards_ / ".metadata"));
    ExpectNoLitter();
  };
  const std::string shard = BytesOf(shards_ / "__1_0.distcp");
  fs::remove(shards_ / "__1_0.distcp");
  refused(StatusCode::kNotFound, "__1_0.distcp");
  std::ofstream(shards_ / "__1_0.distcp", std::ios::binary) << shard.substr(0, shard.size() / 2);
  refused(StatusCode::kDataLoss, "__1_0.distcp");
  std::ofstream(shards_ / "__1_0.distcp", std::ios::binary) << shard;
  const worker::DcpMetadata metadata = worker::DcpDirectory::Open(shards_)->metadata();
  for (const worker::DcpChunk& chunk : metadata.tensors.at(kSharded).chunks) {
    std::string bytes = BytesOf(shards_ / chunk.location.file);
    const size_t crc = bytes.find("PK\7\10", bytes.find("archive/data/0", chunk.location.offset));
    ASSERT_LT(crc, chunk.location.offset + chunk.location.length);
    bytes[crc - 1] ^= 1;  // the last byte of the data
    std::ofstream(shards_ / chunk.location.file, std::ios::binary) << bytes;
  }
  refused(StatusCode::kDataLoss, "checksum");
}

TEST_F(ConversionTest, AFileThatIsNotWhatTheManifestSaysIsWrittenAnew) {
  WriteManifest();
  ASSERT_THAT(Run(), IsOk());
  std::string bytes = BytesOf(output_);
  bytes.back() ^= 1;
  std::ofstream(output_, std::ios::binary) << bytes;
  const auto again = Run(true);
  ASSERT_THAT(again, IsOk());
  EXPECT_FALSE(again->was_there);
  EXPECT_TRUE(IsLikeLeRobots());
}

TEST_F(ConversionTest, AnUnfinishedSaveIsNamed) {
  fs::remove(shards_ / ".metadata");
  EXPECT_THAT(Run(true), StatusIs(StatusCode::kNotFound, HasSubstr("never finished")));
}

/// What the disk gives back is compared before the file gets its name.
TEST_F(ConversionTest, AFileThatReadsBackWrongIsNoResult) {
  for (const bool is_in_header : {true, false}) {
    ConversionOptions options = Options(true);
    options.fault = [&](std::string_view point) {
      for (const auto& entry : fs::directory_iterator(step_ / kPretrainedFolder)) {
        const std::string path = entry.path().string();
        if (point == "read back" && path.find(".tmp-") != std::string::npos) {
          std::string bytes = BytesOf(path);
          const size_t place = is_in_header ? bytes.find("action_head") : bytes.size() - 1;
          bytes[place] ^= 1;
          std::ofstream(path, std::ios::binary) << bytes;
        }
      }
      return Status();
    };
    EXPECT_THAT(Convert(LocatePlace(step_).value(), options),
                StatusIs(StatusCode::kDataLoss,
                         HasSubstr(is_in_header ? "action_head.bias" : "read back")));
    EXPECT_FALSE(fs::exists(output_));
    EXPECT_TRUE(fs::exists(shards_ / ".metadata"));
    ExpectNoLitter();
  }
}

TEST_F(ConversionTest, ValuesBesideTheTensorsKeepTheShards) {
  fs::remove_all(shards_);
  testing::DcpMaker maker(shards_);
  maker.Tensor("model.w", "torch.bfloat16", {2, 2});
  maker.Block("model.w", 0, {0, 0}, {2, 2}, "aAbBcCdD");
  maker.Value("model.extra", std::string("state"));
  maker.Finish();
  EXPECT_THAT(Run(true),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("model.extra"), HasSubstr("--delete_dcp"))));
  EXPECT_FALSE(fs::exists(output_));
  const auto converted = Run(false);
  ASSERT_THAT(converted, IsOk());
  EXPECT_THAT(converted->notes, Contains(HasSubstr("model.extra")));
  EXPECT_THAT(BytesOf(output_), ::testing::EndsWith("aAbBcCdD"));
}

TEST_F(ConversionTest, AFolderThatCannotBeWrittenIsAnErrorBeforeAnyTensorIsRead) {
  constexpr uid_t kNobody = 65534;
  fs::permissions(step_ / kPretrainedFolder, fs::perms::owner_write, fs::perm_options::remove);
  const bool is_root = geteuid() == 0;  // who writes everywhere
  ASSERT_TRUE(!is_root || seteuid(kNobody) == 0);
  ConversionOptions options = Options(true);
  bool has_begun = false;
  options.fault = [&](std::string_view) {
    has_begun = true;
    return Status();
  };
  const auto refused = Convert(LocatePlace(step_).value(), options);
  ASSERT_TRUE(!is_root || seteuid(0) == 0);
  EXPECT_THAT(refused, StatusIs(StatusCode::kPermissionDenied, HasSubstr("model.safetensors")));
  EXPECT_FALSE(has_begun);
  fs::permissions(step_ / kPretrainedFolder, fs::perms::owner_write, fs::perm_options::add);
}

TEST_F(ConversionTest, OneConversionAtATime) {
  const int fd = open((step_ / kPretrainedFolder).c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_THAT(Run(), StatusIs(StatusCode::kAborted, HasSubstr("another conversion")));
  close(fd);
  EXPECT_THAT(Run(), IsOk());
}

/// A kill that comes while the shards are being removed.
void RemoveSomeShard(const fs::path& model) {
  for (const auto& entry : fs::directory_iterator(model)) {
    if (entry.path().filename().string().starts_with("pytorch_model_fsdp_0")) {
      fs::remove(entry.path() / "__0_0.distcp");
    }
  }
}

/// Ends the process at its n-th fault point, in a child; false when it has fewer.
bool DieAt(const fs::path& step, ConversionOptions options, int point) {
  const pid_t pid = fork();
  if (pid == 0) {
    options.fault = [&step, left = point](std::string_view name) mutable {
      if (left-- == 0) {
        if (name == "remove shards") {
          RemoveSomeShard(step / kPretrainedFolder);
        }
        _exit(9);
      }
      return Status();
    };
    const auto converted = Convert(LocatePlace(step).value(), options);
    _exit(converted.ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1) << "at point " << point;
  return WEXITSTATUS(status) == 9;
}

TEST_F(ConversionTest, AKillAtAnyPointLeavesAUsableCheckpointAndTheNextRunFinishes) {
  WriteManifest();
  const fs::path fresh = folder_ / "fresh";
  fs::copy(step_, fresh, fs::copy_options::recursive);
  int point = 0;
  bool died = true;
  constexpr int kTensors = 62;
  for (; died; point += point < kTensors - 20 ? 20 : 1) {  // some tensors, every step afterwards
    fs::remove_all(step_);
    fs::copy(fresh, step_, fs::copy_options::recursive);
    died = DieAt(step_, Options(true), point);
    EXPECT_THAT(worker::VerifyCheckpoint(step_, worker::VerifyLevel::kFull), IsOk()) << point;
    EXPECT_TRUE(fs::exists(shards_ / ".metadata") || IsLikeLeRobots()) << point;
    EXPECT_TRUE(!fs::exists(output_) || IsLikeLeRobots()) << point;
    const CheckpointPlace place = LocatePlace(step_).value();
    if (LookAt(place).has_shards) {
      EXPECT_THAT(Convert(place, Options(true)), IsOk()) << point;
    } else {
      EXPECT_THAT(RemoveLeftovers(place), IsOk()) << point;
    }
    EXPECT_THAT(worker::VerifyCheckpoint(step_, worker::VerifyLevel::kFull), IsOk()) << point;
    EXPECT_TRUE(IsLikeLeRobots()) << point;
    EXPECT_FALSE(fs::exists(shards_)) << point;
    ExpectNoLitter();
  }
  EXPECT_GT(point, kTensors + 5);
}

TEST_F(ConversionTest, InspectionListsEverythingAndFindsDamage) {
  const CheckpointPlace place = LocatePlace(step_).value();
  const auto entries = ListEntries(place);
  ASSERT_THAT(entries, IsOk());
  EXPECT_THAT(EntriesTable(*entries),
              AllOf(HasSubstr("model.model.action_head.weight"),
                    HasSubstr("optimizer.param_groups.0.lr"),
                    HasSubstr("torch_rng_state")));
  const auto sound = [&] {
    std::string damaged;
    for (const CheckOutcome& outcome : VerifyPlace(place, Options(false).progress)) {
      damaged += outcome.is_ok ? "" : outcome.what + ": " + outcome.detail + "\n";
    }
    return damaged;
  };
  EXPECT_EQ(sound(), "");
  WriteManifest();
  EXPECT_EQ(sound(), "");
  const fs::path shard = step_ / "training_state/optimizer_0/__2_0.distcp";
  std::string bytes = BytesOf(shard);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  EXPECT_THAT(sound(), AllOf(HasSubstr("manifest.json: "), HasSubstr("__2_0.distcp")));
}

}  // namespace
}  // namespace lr
