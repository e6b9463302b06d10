/// Where a dataset is looked for, and its statistics file.
#include "worker/data/dataset_root.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/result_matcher.h"
#include "tests/worker/data/temporary_folder.h"
#include "worker/data/dataset_stats.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::IsOkAndHolds;
using lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// A machine of folders and variables.
struct FakeMachine {
  std::string repo_id = "org/name";
  std::map<std::string, std::string> variables = {{"HOME", "/home/me"}};
  std::set<fs::path> folders;
  std::map<fs::path, std::vector<fs::path>> subfolders;

  Result<fs::path> Find(const std::optional<std::string>& root = std::nullopt,
                        const std::optional<std::string>& revision = std::nullopt) const {
    RootSurroundings surroundings;
    surroundings.variable = [this](const std::string& name) {
      const auto it = variables.find(name);
      return it == variables.end() ? std::nullopt : std::optional(it->second);
    };
    surroundings.is_folder = [this](const fs::path& folder) { return folders.count(folder) > 0; };
    surroundings.subfolders = [this](const fs::path& folder) {
      const auto it = subfolders.find(folder);
      return it == subfolders.end() ? std::vector<fs::path>() : it->second;
    };
    return FindDatasetRoot(repo_id, root, revision, surroundings);
  }
};

TEST(DatasetRootTest, UsesTheGivenFolderOnly) {
  FakeMachine machine;
  machine.folders = {"/data/mine", "/home/me/.cache/huggingface/lerobot/org/name/meta"};
  EXPECT_THAT(machine.Find("/data/mine"), IsOkAndHolds(fs::path("/data/mine")));
  EXPECT_THAT(
      machine.Find("/data/other"),
      StatusIs(StatusCode::kNotFound, HasSubstr("--dataset.root (/data/other: no such folder)")));
}

TEST(DatasetRootTest, FollowsTheVariables) {
  FakeMachine machine;
  machine.folders = {"/home/me/.cache/huggingface/lerobot/org/name/meta",
                     "/hf/lerobot/org/name/meta",
                     "/lr/org/name/meta"};
  EXPECT_THAT(machine.Find(),
              IsOkAndHolds(fs::path("/home/me/.cache/huggingface/lerobot/org/name")));
  machine.variables["HF_HOME"] = "/hf";
  EXPECT_THAT(machine.Find(), IsOkAndHolds(fs::path("/hf/lerobot/org/name")));
  machine.variables["HF_LEROBOT_HOME"] = "/lr";
  EXPECT_THAT(machine.Find(), IsOkAndHolds(fs::path("/lr/org/name")));
}

TEST(DatasetRootTest, PrefersTheNamedSnapshotToTheNewest) {
  FakeMachine machine;
  machine.variables["HF_LEROBOT_HOME"] = "/lr";
  const fs::path snapshots = "/lr/hub/datasets--org--name/snapshots";
  machine.subfolders[snapshots] = {snapshots / "new", snapshots / "old"};
  machine.folders = {snapshots / "new/meta", snapshots / "old/meta"};
  EXPECT_THAT(machine.Find(), IsOkAndHolds(snapshots / "new"));
  EXPECT_THAT(machine.Find(std::nullopt, "old"), IsOkAndHolds(snapshots / "old"));
  // A folder that an old mirror download left is passed over.
  machine.folders.insert({"/lr/org/name/meta", "/lr/org/name/.cache/huggingface/download"});
  EXPECT_THAT(machine.Find(), IsOkAndHolds(snapshots / "new"));
  machine.folders.erase(snapshots / "new/meta");  // a download that has only begun
  EXPECT_THAT(machine.Find(), IsOkAndHolds(snapshots / "old"));
}

TEST(DatasetRootTest, ListsEveryPlaceAndTheWayOut) {
  FakeMachine machine;
  machine.variables["HF_LEROBOT_HOME"] = "/lr";
  machine.folders = {"/lr/org/name/.cache/huggingface/download"};
  EXPECT_THAT(machine.Find(),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("--dataset.root (not given)"),
                             HasSubstr("/lr/org/name: not used, an old mirror download made it"),
                             HasSubstr("/lr/hub/datasets--org--name/snapshots"),
                             HasSubstr("hf download org/name --repo-type=dataset"))));
}

TEST(DatasetRootTest, RefusesTheOldVariable) {
  FakeMachine machine;
  machine.variables["LEROBOT_HOME"] = "/x";
  EXPECT_THAT(machine.Find("/data"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("Rename it to HF_LEROBOT_HOME")));
}

TEST(DatasetRootTest, RefusesNamesThatLeaveTheCache) {
  FakeMachine machine;
  for (const char* bad : {"", "../x", "org/..", "org//name", "/etc"}) {
    machine.repo_id = bad;
    EXPECT_THAT(machine.Find(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("--dataset.repo_id")))
        << bad;
  }
}

TEST(DatasetStatsTest, RaisesNumbersAndKeepsShapes) {
  const auto stats = ParseDatasetStats(
      R"({"a": {"min": 1, "mean": [1.5, 2], "max": [[[3]], [[4]], [[5]]], "done": [true]}})", "f");
  ASSERT_THAT(stats, IsOk());
  EXPECT_EQ(stats->at("a").at("min"), (StatArray{{1}, {1.0}}));
  EXPECT_EQ(stats->at("a").at("mean"), (StatArray{{2}, {1.5, 2.0}}));
  EXPECT_EQ(stats->at("a").at("max"), (StatArray{{3, 1, 1}, {3.0, 4.0, 5.0}}));
  EXPECT_EQ(stats->at("a").at("done"), (StatArray{{1}, {1.0}}));
}

TEST(DatasetStatsTest, RefusesWhatIsNoArray) {
  for (const char* bad : {R"({"a": 1})",
                          R"({"a": {"min": "1"}})",
                          R"({"a": {"min": [1, [2]]}})",
                          R"({"a": {"min": [[1, 2], [3]]}})",
                          R"({"a": {"min": [null]}})",
                          R"([1])",
                          R"({"a": )"}) {
    EXPECT_THAT(ParseDatasetStats(bad, "meta/stats.json"),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("meta/stats.json")))
        << bad;
  }
}

TEST(DatasetStatsTest, AMissingFileMeansNone) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(ReadDatasetStats(folder.path()), IsOkAndHolds(DatasetStats()));
}

TEST(DatasetStatsTest, ImagenetLeavesDepthCamerasAlone) {
  DatasetInfo info;
  info.cameras["rgb"];
  info.cameras["depth"].is_depth = true;
  DatasetStats stats = {{"depth", {{"mean", {{1, 1, 1}, {7.0}}}}}};
  UseImagenetStats(info, stats);
  EXPECT_EQ(stats["rgb"]["std"], (StatArray{{3, 1, 1}, {0.229, 0.224, 0.225}}));
  EXPECT_EQ(stats["depth"]["mean"].values, std::vector<double>{7.0});
}

TEST(DatasetStatsTest, RenamesKnownKeys) {
  const DatasetStats stats = {{"a", {{"min", {{1}, {0.0}}}}}, {"b", {}}};
  const DatasetStats renamed = RenameStats(stats, {{"a", "c"}, {"x", "y"}});
  EXPECT_EQ(renamed, (DatasetStats{{"c", stats.at("a")}, {"b", {}}}));
}

}  // namespace
}  // namespace lr::worker
