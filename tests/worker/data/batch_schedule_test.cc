/// Dealing to ranks and resuming: recorded vectors, and the property that an interrupted stream
/// continues as if it had not been interrupted.
#include "worker/data/batch_schedule.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/fixture_json.h"
#include "worker/data/sampler.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

std::vector<Numbers> Stream(const BatchSchedule::Options& options, int64_t batches) {
  auto schedule = BatchSchedule::Create(options);
  EXPECT_THAT(schedule, IsOk());
  std::vector<Numbers> stream;
  for (int64_t i = 0; i < batches; ++i) {
    stream.push_back(schedule->Next().positions);
  }
  return stream;
}

/// `recorded` may leave out batches in the middle, marked by "...".
void ExpectSame(const std::vector<Numbers>& dealt, const nlohmann::json& recorded) {
  size_t at = 0;
  for (size_t i = 0; i < recorded.size(); ++i) {
    if (recorded[i].is_string()) {
      at = dealt.size() - (recorded.size() - i - 1);
      continue;
    }
    ASSERT_LT(at, dealt.size());
    EXPECT_EQ(dealt[at++], recorded[i].get<Numbers>());
  }
  EXPECT_EQ(at, dealt.size());
}

TEST(BatchScheduleTest, DealsAsRecorded) {
  const nlohmann::json expected = testing::ReadFixture("sampler_expected.json");
  for (const nlohmann::json& row : expected["batch_shards"]["cases"]) {
    SCOPED_TRACE(row.dump());
    const Sharding sharding = {row["n"], row["batch_size"], row["world"]};
    for (int64_t rank = 0; rank < sharding.world; ++rank) {
      std::vector<Numbers> dealt;
      for (const BatchPlan& plan : SequentialPass(sharding, rank)) {
        dealt.push_back(plan.positions);
      }
      ExpectSame(dealt, row["per_rank"][static_cast<size_t>(rank)]);
    }
  }
}

TEST(BatchScheduleTest, ResumesWhereRecorded) {
  const nlohmann::json expected = testing::ReadFixture("sampler_expected.json");
  for (const nlohmann::json& row : expected["resume"]["states"]) {
    const Sharding saved = {row["num_frames"], row["batch_size"], row["world"]};
    const ResumePosition position = ResumeAt(row["step"], saved);
    EXPECT_EQ(position, (ResumePosition{row["epoch"], row["start_index"]})) << row.dump();
  }
}

/// The frames that really reached each rank of the reference's trainer.
class RecordedRunTest : public ::testing::Test {
 protected:
  void ExpectStream(const std::string& run,
                    const EpisodeRanges& ranges,
                    int64_t world,
                    int64_t step,
                    int64_t recorded_from = 0) {
    const nlohmann::json expected = testing::ReadFixture("sampler_expected.json");
    const auto sampler = EpisodeAwareSampler::Create(ranges, 0, 0);
    ASSERT_THAT(sampler, IsOk());
    const Sharding sharding = {sampler->size(), 4, world};
    for (int64_t rank = 0; rank < world; ++rank) {
      const auto wanted = expected["real_lerobot_train"][run]["per_rank"][static_cast<size_t>(rank)]
                              .get<std::vector<Numbers>>();
      const int64_t skipped = step - recorded_from;
      const int64_t count = static_cast<int64_t>(wanted.size()) - skipped;
      auto stream =
          Stream({.sharding = sharding, .rank = rank, .start = ResumeAt(step, sharding)}, count);
      for (Numbers& batch : stream) {
        for (int64_t& position : batch) {
          position = ranges.ToFrame(sampler->RowAt(position)).number;
        }
      }
      EXPECT_EQ(stream, std::vector<Numbers>(wanted.begin() + skipped, wanted.end()))
          << run << " rank " << rank << " from step " << step;
    }
  }
};

TEST_F(RecordedRunTest, AllEpisodes) {
  EpisodeRanges ranges;
  ranges.Append(0, Frame{0}, Frame{148});
  ExpectStream("one_rank_12_steps", ranges, 1, 0);
  ExpectStream("two_ranks_12_steps", ranges, 2, 0);
  ExpectStream("two_ranks_12_steps", ranges, 2, 5);
  ExpectStream("two_ranks_resumed_at_5", ranges, 2, 5, 5);
}

TEST_F(RecordedRunTest, OneEpisodeOverSeveralEpochs) {
  EpisodeRanges ranges;
  ranges.Append(2, Frame{80}, Frame{108});
  for (const int64_t step : {0, 1, 3, 4, 5, 7, 8, 11}) {
    ExpectStream("two_ranks_episode2_only_12_steps", ranges, 2, step);
  }
}

/// Uninterrupted equals interrupted and resumed, at every step of three epochs.
class ResumeGridTest : public ::testing::TestWithParam<Sharding> {};

TEST_P(ResumeGridTest, ContinuesTheStream) {
  const Sharding& sharding = GetParam();
  const int64_t per_epoch = sharding.batches_per_epoch();
  const int64_t steps = 3 * per_epoch;
  const int64_t ahead = per_epoch + 1;  // far enough to see the next epoch begin
  for (int64_t rank = 0; rank < sharding.world; ++rank) {
    const auto whole = Stream({.sharding = sharding, .rank = rank}, steps + ahead);
    // Every step when that is cheap; in long epochs the borders and a coarse walk between them.
    const int64_t stride = std::max<int64_t>(1, per_epoch / 40);
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t within = step % per_epoch;
      if (within % stride != 0 && within > 1 && within < per_epoch - 2) {
        continue;
      }
      const auto resumed =
          Stream({.sharding = sharding, .rank = rank, .start = ResumeAt(step, sharding)}, ahead);
      ASSERT_TRUE(std::equal(resumed.begin(), resumed.end(), whole.begin() + step))
          << "N " << sharding.positions << " B " << sharding.batch_size << " W " << sharding.world
          << " rank " << rank << " step " << step;
    }
  }
}

std::vector<Sharding> Grid() {
  std::vector<Sharding> grid;
  for (const int64_t positions : {1, 7, 64, 1001}) {
    for (const int64_t batch_size : {1, 4, 8}) {
      for (const int64_t world : {1, 2, 3, 8}) {
        grid.push_back({positions, batch_size, world});
      }
    }
  }
  return grid;
}

INSTANTIATE_TEST_SUITE_P(Grid, ResumeGridTest, ::testing::ValuesIn(Grid()));

TEST(BatchScheduleTest, CompletesAResumedEpochFromItsOwnBeginning) {
  const Sharding sharding = {10, 2, 2};
  const BatchSchedule::Options options = {
      .sharding = sharding, .rank = 1, .shuffle = false, .start = ResumeAt(1, sharding)};
  EXPECT_EQ(Stream(options, 2), (std::vector<Numbers>{{6, 7}, {0, 1}}));
}

TEST(BatchScheduleTest, RefusesImpossibleNumbers) {
  EXPECT_THAT(BatchSchedule::Create({.sharding = {10, 0, 1}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("batch size (0)")));
  EXPECT_THAT(BatchSchedule::Create({.sharding = {10, 1, 2}, .rank = 2}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank 2 is not in 0 to 1")));
  EXPECT_THAT(BatchSchedule::Create({.sharding = {int64_t{1} << 31, 1, 1}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("only defined up to 214748364")));
}

TEST(BatchScheduleTest, WarnsOncePerChangedSetting) {
  EXPECT_TRUE(ResumeWarnings({10, 2, 2}, {10, 2, 2}).empty());
  const auto warnings = ResumeWarnings({10, 2, 2}, {11, 4, 1});
  ASSERT_EQ(warnings.size(), 3U);
  EXPECT_THAT(warnings[0], HasSubstr("data-parallel ranks changed from 2 to 1"));
  EXPECT_THAT(warnings[1], HasSubstr("batch size changed from 2 to 4"));
  EXPECT_THAT(warnings[2], HasSubstr("number of training frames changed from 10 to 11"));
}

}  // namespace
}  // namespace lr::worker
