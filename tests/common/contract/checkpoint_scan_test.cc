// Listings, manifests and `last` on a real file system.
#include "common/contract/checkpoint_scan.h"

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"

namespace lr {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::lr::testing::WriteBytes;
using ::testing::HasSubstr;

CheckpointManifest Manifest(int64_t step) {
  return {step, "run-1", "crc32", {{"pretrained_model/config.json", 2, "0badcafe"}}};
}

void WriteStep(const std::filesystem::path& directory, int64_t step) {
  WriteBytes(directory / kPolicyConfigPath, "{}");
  WriteBytes(directory / kManifestPath, FormatManifest(Manifest(step)));
}

TEST(CheckpointScanTest, ManifestRoundTrip) {
  const Result<CheckpointManifest> parsed = ParseManifest(FormatManifest(Manifest(7)));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->step, 7);
  EXPECT_EQ(parsed->run_id, "run-1");
  EXPECT_EQ(parsed->checksum_algorithm, "crc32");
  ASSERT_EQ(parsed->files.size(), 1U);
  EXPECT_EQ(parsed->files[0].path, "pretrained_model/config.json");
  EXPECT_EQ(parsed->files[0].size, 2U);
  EXPECT_EQ(parsed->files[0].checksum, "0badcafe");
}

TEST(CheckpointScanTest, ManifestsThatAreBrokenOrEscapeAreRefused) {
  for (const char* path : {"../x", "/etc/passwd", "a/../../b", "a//b", "", "a\\\\b"}) {
    const std::string text =
        std::string(R"({"format":"lr-checkpoint-1","step":1,"files":[{"path":")") + path +
        R"(","size":1}]})";
    EXPECT_THAT(ParseManifest(text),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("leaves the checkpoint")))
        << path;
  }
  EXPECT_FALSE(ParseManifest("[]").ok());
  EXPECT_FALSE(ParseManifest(R"({"format":"other","step":1,"files":[]})").ok());
  EXPECT_FALSE(ParseManifest(R"({"format":"lr-checkpoint-1","files":[]})").ok());
  EXPECT_FALSE(
      ParseManifest(R"({"format":"lr-checkpoint-1","step":1,"files":[{"path":"a","size":-1}]})")
          .ok());
}

TEST(CheckpointScanTest, ListsStepDirectoriesNewestFirstWithVerdicts) {
  const TempDirectory output;
  EXPECT_TRUE(ListCheckpoints(output.path())->empty());
  const std::filesystem::path checkpoints = output / kCheckpointsFolder;
  WriteStep(checkpoints / "000010", 10);
  WriteStep(checkpoints / "0000020", 20);
  WriteBytes(checkpoints / "0000020" / kPolicyConfigPath, "{} ");
  WriteStep(checkpoints / "000030.tmp-1-ab", 30);
  WriteBytes(checkpoints / "000005" / kManifestPath, "{");
  WriteBytes(checkpoints / "000010/.pinned", "");
  std::filesystem::create_symlink("000010", checkpoints / kLastName);
  const Result<std::vector<CheckpointCandidate>> candidates = ListCheckpoints(output.path());
  ASSERT_THAT(candidates, IsOk());
  ASSERT_EQ(candidates->size(), 3U);
  EXPECT_EQ((*candidates)[0].name, "0000020");
  EXPECT_THAT((*candidates)[0].verdict.reason, HasSubstr("has 3 bytes, the manifest says 2"));
  EXPECT_EQ((*candidates)[1].step, 10);
  EXPECT_TRUE((*candidates)[1].verdict.complete);
  EXPECT_TRUE((*candidates)[1].is_last);
  EXPECT_TRUE((*candidates)[1].pinned);
  EXPECT_EQ((*candidates)[1].run_id, "run-1");
  EXPECT_THAT((*candidates)[2].verdict.reason, HasSubstr("manifest.json cannot be read"));
}

TEST(CheckpointScanTest, LastIsALinkOrAOneLineFileBesideTheSteps) {
  const TempDirectory folder;
  const std::filesystem::path last = folder / kLastName;
  EXPECT_THAT(ReadLast(folder.path()), StatusIs(StatusCode::kNotFound, HasSubstr("there is no")));
  std::filesystem::create_symlink("000012", last);
  EXPECT_EQ(*ReadLast(folder.path()), "000012");
  std::filesystem::remove(last);
  WriteBytes(last, "000013\n");
  EXPECT_EQ(*ReadLast(folder.path()), "000013");
  WriteBytes(last, "../../elsewhere");
  EXPECT_THAT(ReadLast(folder.path()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a step directory")));
  std::filesystem::remove(last);
  std::filesystem::create_directory(last);
  EXPECT_THAT(ReadLast(folder.path()),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("neither a link nor")));
}

}  // namespace
}  // namespace lr
