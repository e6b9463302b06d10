// Names of checkpoint directories, and the decisions: complete, resume from, remove.
#include "common/contract/checkpoint_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CheckpointLayoutTest, StepNamesArePaddedToSixDigitsOrTheTotals) {
  EXPECT_EQ(StepDirectoryName(5000, 100000), "005000");
  EXPECT_EQ(StepDirectoryName(5000, 2'000'000), "0005000");
  EXPECT_EQ(StepDirectoryName(12, 12), "000012");
  EXPECT_EQ(StepDirectoryName(12'345'678, 100), "12345678");
}

TEST(CheckpointLayoutTest, ParsesNamesOfAnyWidthAndNothingElse) {
  EXPECT_EQ(ParseStepDirectoryName("005000"), 5000);
  EXPECT_EQ(ParseStepDirectoryName("7"), 7);
  for (const char* name : {"",
                           "last",
                           "005000.tmp-1-ab",
                           "-5",
                           "+5",
                           "5 ",
                           "99999999999999999999",
                           "005000.old-1-ab"}) {
    EXPECT_EQ(ParseStepDirectoryName(name), std::nullopt) << name;
  }
}

TEST(CheckpointLayoutTest, MarkedNamesAreRecognisedAndAreNoCheckpoints) {
  EXPECT_EQ(TemporaryName("005000", 17, "0a1b"), "005000.tmp-17-0a1b");
  EXPECT_TRUE(IsTemporaryName(TemporaryName("005000", 17, "0a1b")));
  EXPECT_TRUE(IsAsideName(AsideName("005000", 17, "0a1b")));
  EXPECT_TRUE(IsDoomedName(DoomedName("005000", 17, "0a1b")));
  EXPECT_FALSE(IsTemporaryName("005000"));
  EXPECT_FALSE(IsTemporaryName("notes.tmp-1"));
  EXPECT_FALSE(IsTemporaryName("last.tmp-1-ab"));
}

CheckpointListing PythonListing() {
  CheckpointListing listing;
  for (const char* path : {kPolicyConfigPath,
                           kTrainConfigPath,
                           kModelPath,
                           kTrainingStepPath,
                           kRngStatePath,
                           kOptimizerStatePath,
                           kOptimizerGroupsPath}) {
    listing.files[path] = 10;
  }
  return listing;
}

TEST(CheckpointLayoutTest, WithoutManifestTheRequiredFilesDecide) {
  EXPECT_TRUE(JudgeCheckpoint(PythonListing()).complete);
  for (const auto& [path, size] : PythonListing().files) {
    CheckpointListing listing = PythonListing();
    listing.files.erase(path);
    EXPECT_FALSE(JudgeCheckpoint(listing).complete) << path;
    listing.files[path] = 0;
    const CheckpointVerdict verdict = JudgeCheckpoint(listing);
    EXPECT_FALSE(verdict.complete) << path;
    EXPECT_THAT(verdict.reason, HasSubstr("missing or empty"));
  }
}

TEST(CheckpointLayoutTest, ShardedAdapterAndMultiOptimizerLayoutsCountAsComplete) {
  CheckpointListing sharded = PythonListing();
  sharded.files.erase(kModelPath);
  sharded.files.erase(kOptimizerStatePath);
  sharded.files["pretrained_model/pytorch_model_fsdp_0/.metadata"] = 1;
  sharded.files["training_state/optimizer_0/.metadata"] = 1;
  EXPECT_TRUE(JudgeCheckpoint(sharded).complete);

  CheckpointListing adapter = PythonListing();
  adapter.files.erase(kModelPath);
  adapter.files[kAdapterModelPath] = 1;
  EXPECT_FALSE(JudgeCheckpoint(adapter).complete);
  adapter.files[kAdapterConfigPath] = 1;
  EXPECT_TRUE(JudgeCheckpoint(adapter).complete);

  CheckpointListing several = PythonListing();
  several.files.erase(kOptimizerStatePath);
  several.files["training_state/actor/optimizer_state.safetensors"] = 16;
  EXPECT_FALSE(JudgeCheckpoint(several).complete);
  several.files["training_state/actor/optimizer_param_groups.json"] = 2;
  EXPECT_TRUE(JudgeCheckpoint(several).complete);
}

TEST(CheckpointLayoutTest, WithAManifestEveryFileMustHaveItsSize) {
  CheckpointListing listing;
  listing.manifest = CheckpointManifest{5, "run", "crc32", {{"a", 3, "00"}, {"b/c", 4, "00"}}};
  listing.files = {{"a", 3}, {"b/c", 4}, {"extra", 9}};
  EXPECT_TRUE(JudgeCheckpoint(listing).complete);
  listing.files["a"] = 2;
  EXPECT_EQ(JudgeCheckpoint(listing).reason, "a has 2 bytes, the manifest says 3");
  listing.files.erase("a");
  EXPECT_EQ(JudgeCheckpoint(listing).reason, "a is missing (3 bytes in the manifest)");
  listing.manifest_error = "manifest.json cannot be read";
  EXPECT_EQ(JudgeCheckpoint(listing).reason, "manifest.json cannot be read");
}

CheckpointCandidate Candidate(int64_t step, bool complete = true, bool is_last = false) {
  CheckpointCandidate candidate;
  candidate.name = StepDirectoryName(step, 0);
  candidate.step = step;
  candidate.is_last = is_last;
  candidate.verdict = {complete, complete ? "fine" : "broken"};
  return candidate;
}

TEST(CheckpointLayoutTest, ResumesFromLastElseFromTheNewestCompleteOne) {
  EXPECT_EQ(ChooseCheckpoint({Candidate(9), Candidate(7, true, true), Candidate(5)}).index, 1U);
  EXPECT_EQ(
      ChooseCheckpoint({Candidate(9, false), Candidate(7, false, true), Candidate(5), Candidate(3)})
          .index,
      2U);
  EXPECT_EQ(ChooseCheckpoint({}).reason, "there is no checkpoint");
  const CheckpointChoice none = ChooseCheckpoint({Candidate(9, false)});
  EXPECT_EQ(none.index, std::nullopt);
  EXPECT_EQ(none.reason, "no checkpoint is complete (000009: broken)");
  EXPECT_THAT(ChooseCheckpoint({Candidate(7, true, true)}).reason, HasSubstr("target of 'last'"));
}

TEST(CheckpointLayoutTest, RetentionNeverTouchesTheNewestTwoLastPinnedOrIncompleteOnes) {
  std::vector<CheckpointCandidate> candidates = {Candidate(6),
                                                 Candidate(5),
                                                 Candidate(4, false),
                                                 Candidate(3),
                                                 Candidate(2),
                                                 Candidate(1, true, true)};
  EXPECT_THAT(CheckpointsToRemove(candidates, 0), IsEmpty());
  EXPECT_THAT(CheckpointsToRemove(candidates, 1), ElementsAre("000003", "000002"));
  EXPECT_THAT(CheckpointsToRemove(candidates, 3), ElementsAre("000002"));
  candidates[4].pinned = true;
  EXPECT_THAT(CheckpointsToRemove(candidates, 3), IsEmpty());
}

}  // namespace
}  // namespace lr
