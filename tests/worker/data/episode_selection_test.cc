/// Episode lists and the held-out split: recorded splits, warnings and refusals.
#include "worker/data/episode_selection.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/fixture_json.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

std::optional<Numbers> OptionalNumbers(const nlohmann::json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<Numbers>());
}

TEST(HeldOutSplitTest, SplitsAsRecorded) {
  const nlohmann::json expected = testing::ReadFixture("dataset_expected.json");
  for (const nlohmann::json& row : expected["held_out_split"]) {
    SCOPED_TRACE(row.dump());
    const nlohmann::json& episodes =
        expected["datasets"][row["dataset"].get<std::string>()]["episodes"];
    const auto selection = SelectEpisodes(static_cast<int64_t>(episodes.size()),
                                          OptionalNumbers(row["episodes"]),
                                          OptionalNumbers(row["exclude_episodes"]));
    if (!selection.ok()) {
      EXPECT_TRUE(row.contains("error")) << selection.status().message();
      EXPECT_THAT(selection, StatusIs(StatusCode::kInvalidArgument, HasSubstr("valid episodes")));
      continue;
    }
    std::vector<std::string> tasks;
    for (const int64_t episode : selection->episodes) {
      tasks.push_back(episodes[static_cast<size_t>(episode)]["tasks"][0]);
    }
    const auto split = SplitHeldOut(selection->episodes, tasks, row["eval_split"].get<double>());
    if (row.contains("error")) {
      EXPECT_THAT(split, StatusIs(StatusCode::kInvalidArgument, row["error"].get<std::string>()));
      continue;
    }
    ASSERT_THAT(split, IsOk());
    EXPECT_EQ(split->train, OptionalNumbers(row["train_episodes"]).value_or(selection->episodes));
    EXPECT_EQ(split->held_out, OptionalNumbers(row["eval_episodes"]).value_or(Numbers{}));
  }
}

TEST(HeldOutSplitTest, SaysWhatItDid) {
  const auto split = SplitHeldOut({0, 1, 2, 3}, {"a", "b", "a", "b"}, 0.25);
  ASSERT_THAT(split, IsOk());
  EXPECT_EQ(split->log_line, "Train/eval split: 2 train, 2 eval (eval_split=0.25, 2 tasks)");
  EXPECT_THAT(SplitHeldOut({0}, {"a"}, 1.0),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("must be in [0, 1)")));
}

TEST(EpisodeSelectionTest, DropsUnknownNumbersWithAWarning) {
  const auto selection = SelectEpisodes(4, Numbers{3, 9, 1}, Numbers{-1, 7});
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->episodes, (Numbers{3, 1}));
  EXPECT_FALSE(selection->is_everything);
  ASSERT_EQ(selection->warnings.size(), 2U);
  EXPECT_THAT(selection->warnings[0], HasSubstr("[9] not in the dataset and dropped"));
  EXPECT_THAT(selection->warnings[1], HasSubstr("[-1, 7] not in the dataset and ignored"));
}

TEST(EpisodeSelectionTest, UsesEverythingByDefault) {
  const auto selection = SelectEpisodes(3, std::nullopt, std::nullopt);
  ASSERT_THAT(selection, IsOk());
  EXPECT_EQ(selection->episodes, (Numbers{0, 1, 2}));
  EXPECT_TRUE(selection->is_everything);
}

TEST(EpisodeSelectionTest, RefusesNegativeAndRepeatedNumbers) {
  EXPECT_THAT(SelectEpisodes(4, Numbers{-2}, std::nullopt),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("negative number -2")));
  EXPECT_THAT(SelectEpisodes(4, Numbers{1, 1}, std::nullopt),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("1 more than once")));
}

}  // namespace
}  // namespace lr::worker
