/// Epoch orders and the sampler against the vectors recorded from the reference.
#include "worker/data/sampler.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/fixture_json.h"
#include "worker/data/epoch_order.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

/// The episodes of the recorded dataset, all or those in `selection`.
EpisodeRanges RecordedRanges(const nlohmann::json& expected, const nlohmann::json& selection) {
  const auto from = expected["episodes"]["from"].get<Numbers>();
  const auto to = expected["episodes"]["to"].get<Numbers>();
  EpisodeRanges ranges;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool chosen =
        selection.is_null() || std::count(selection.begin(), selection.end(), i) > 0;
    if (chosen) {
      ranges.Append(static_cast<int64_t>(i), Frame{from[i]}, Frame{to[i]});
    }
  }
  return ranges;
}

Numbers Slice(const Numbers& values, size_t first, size_t count) {
  return {values.begin() + static_cast<int64_t>(first),
          values.begin() + static_cast<int64_t>(first + count)};
}

TEST(EpochOrderTest, GivesTheRecordedSeeds) {
  EXPECT_EQ(EpochSeed(1000, 0), 18002537191484623697U);
  EXPECT_EQ(EpochSeed(1000, 1), 4723298920957447659U);
  EXPECT_EQ(EpochSeed(0, 0), 15793235383387715774U);
  EXPECT_EQ(EpochSeed(42, 5), 83509503666147837U);
}

TEST(EpochOrderTest, GivesTheRecordedPermutations) {
  using Order = std::vector<uint32_t>;
  EXPECT_EQ(Permutation(EpochSeed(1000, 0), 12), (Order{0, 2, 11, 5, 9, 4, 7, 1, 3, 8, 10, 6}));
  EXPECT_EQ(Permutation(EpochSeed(42, 5), 12), (Order{5, 8, 1, 7, 10, 0, 9, 4, 6, 2, 3, 11}));
  Order order = Permutation(EpochSeed(0, 0), 1000);
  order.resize(8);
  EXPECT_EQ(order, (Order{676, 903, 233, 121, 80, 637, 184, 193}));
  EXPECT_TRUE(Permutation(7, 0).empty());
}

TEST(SamplerTest, GivesTheRecordedOrders) {
  const nlohmann::json expected = testing::ReadFixture("sampler_expected.json");
  int cases = 0;
  for (const nlohmann::json& row : expected["orders"]["shuffled"]) {
    SCOPED_TRACE(row.dump().substr(0, 160));
    const EpisodeRanges ranges = RecordedRanges(expected, row["episodes"]);
    const auto sampler = EpisodeAwareSampler::Create(
        ranges, row["drop_first"].get<int64_t>(), row["drop_last"].get<int64_t>());
    ASSERT_THAT(sampler, IsOk());
    ASSERT_EQ(sampler->size(), row["len"].get<int64_t>());
    Numbers order;
    for (const uint32_t position :
         Permutation(EpochSeed(row["seed"], row["epoch"]), sampler->size())) {
      const Row at = sampler->RowAt(position);
      order.push_back(row["relative_indices"] ? at.position : ranges.ToFrame(at).number);
    }
    EXPECT_EQ(Slice(order, 0, 16), row["head"].get<Numbers>());
    EXPECT_EQ(Slice(order, order.size() - 8, 8), row["tail"].get<Numbers>());
    if (row.contains("order") && !row["order"].is_null()) {
      EXPECT_EQ(order, row["order"].get<Numbers>());
    }
    ++cases;
  }
  EXPECT_EQ(cases, 64);
}

TEST(SamplerTest, WalksEpisodesInOrderWithoutShuffling) {
  const nlohmann::json expected = testing::ReadFixture("sampler_expected.json");
  const EpisodeRanges ranges = RecordedRanges(expected, nullptr);
  const auto sampler = EpisodeAwareSampler::Create(ranges, 1, 2);
  ASSERT_THAT(sampler, IsOk());
  Numbers order;
  for (int64_t position = 0; position < sampler->size(); ++position) {
    order.push_back(ranges.ToFrame(sampler->RowAt(position)).number);
  }
  EXPECT_EQ(order, expected["orders"]["unshuffled_drop1_2"].get<Numbers>());
}

TEST(SamplerTest, SkipsShortEpisodesWithOneWarningEach) {
  EpisodeRanges ranges;
  ranges.Append(0, Frame{0}, Frame{3});
  ranges.Append(1, Frame{3}, Frame{10});
  const auto sampler = EpisodeAwareSampler::Create(ranges, 0, 3);
  ASSERT_THAT(sampler, IsOk());
  EXPECT_EQ(sampler->size(), 4);
  EXPECT_EQ(sampler->RowAt(0), Row{3});
  ASSERT_EQ(sampler->warnings().size(), 1U);
  EXPECT_THAT(sampler->warnings()[0], HasSubstr("episode 0 is skipped"));
}

TEST(SamplerTest, RefusesWhatLeavesNothing) {
  EpisodeRanges ranges;
  ranges.Append(0, Frame{0}, Frame{3});
  EXPECT_THAT(
      EpisodeAwareSampler::Create(ranges, 0, 7),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("No valid frames remain: all 1 episodes")));
  EXPECT_THAT(EpisodeAwareSampler::Create(ranges, -1, 0),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("must not be negative: first -1")));
}

TEST(EpisodeRangesTest, ConvertsBothWaysOverAnySubset) {
  EpisodeRanges ranges;
  ranges.Append(1, Frame{33}, Frame{80});
  ranges.Append(3, Frame{108}, Frame{148});
  EXPECT_EQ(ranges.num_rows(), 87);
  for (int64_t position = 0; position < ranges.num_rows(); ++position) {
    const Frame frame = ranges.ToFrame(Row{position});
    EXPECT_EQ(ranges.ToRow(frame), Row{position});
    EXPECT_EQ(ranges.At(Row{position}).episode, frame.number < 80 ? 1 : 3);
  }
  EXPECT_EQ(ranges.ToRow(Frame{32}), std::nullopt);
  EXPECT_EQ(ranges.ToRow(Frame{80}), std::nullopt);
  EXPECT_EQ(ranges.ToRow(Frame{148}), std::nullopt);
}

}  // namespace
}  // namespace lr::worker
