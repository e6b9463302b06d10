#include "launcher/plan/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// 100 steps of 100 ms, of which 60 ms are its own, two ranks per node.
RankPace Pace(int rank, int data_ms = 10, int forward_ms = 40, int optimizer_ms = 10) {
  constexpr int kSteps = 100;
  return {.rank = rank,
          .node_rank = rank / 2,
          .host = "gpu" + std::to_string(rank / 2),
          .steps = kSteps,
          .step_median = milliseconds(100),
          .best_median = milliseconds(100),
          .data = milliseconds(kSteps * data_ms),
          .forward = milliseconds(kSteps * forward_ms),
          .optimizer = milliseconds(kSteps * optimizer_ms)};
}

TEST(StragglerTest, EqualRanksHaveNone) {
  const StragglerReport report = FindStragglers({Pace(0), Pace(1), Pace(2), Pace(3)});
  EXPECT_THAT(report.slow, IsEmpty());
  EXPECT_EQ(report.text, "no straggler among 4 ranks");
}

TEST(StragglerTest, TheSlowRankIsNamedWithItsPhaseThoughAllStepsTakeTheSame) {
  const StragglerReport report = FindStragglers({Pace(0), Pace(1), Pace(2, 50), Pace(3)});
  ASSERT_EQ(report.slow.size(), 1U);
  EXPECT_EQ(report.slow[0].rank, 2);
  EXPECT_DOUBLE_EQ(report.slow[0].score, 0.6);
  EXPECT_THAT(report.text,
              AllOf(HasSubstr("1 of 4 ranks below 0.75"),
                    HasSubstr("rank 2 (node 1, gpu1): 0.60, needs 100.0 ms of each step for "
                              "itself, the fastest 60.0 ms: "
                              "data 50.0 ms instead of 10.0"),
                    Not(HasSubstr("all ranks of"))));
}

TEST(StragglerTest, TheWorstPhaseIsToldWhicheverItIs) {
  EXPECT_THAT(FindStragglers({Pace(0), Pace(1, 10, 90)}).text,
              HasSubstr("forward 90.0 ms instead of 40.0"));
  EXPECT_THAT(FindStragglers({Pace(0), Pace(1, 10, 40, 60)}).text,
              HasSubstr("optimizer 60.0 ms instead of 10.0"));
}

TEST(StragglerTest, TheThresholdIsThreeQuarters) {
  EXPECT_THAT(FindStragglers({Pace(0), Pace(1, 30)}).slow, IsEmpty());  // 60 / 80
  EXPECT_EQ(FindStragglers({Pace(0), Pace(1, 31)}).slow.size(), 1U);
}

TEST(StragglerTest, ADifferenceThatIsNoneOfTheStepIsNoise) {
  const StragglerReport report =
      FindStragglers({Pace(0, 1, 1, 1), Pace(1, 5, 1, 1)});  // 4 of 100 ms
  EXPECT_THAT(report.slow, IsEmpty());
  EXPECT_EQ(FindStragglers({Pace(0, 1, 1, 1), Pace(1, 6, 1, 1)}).slow.size(), 1U);
}

TEST(StragglerTest, ANodeAllOfWhoseRanksAreSlowIsNamed) {
  const StragglerReport report = FindStragglers({Pace(0), Pace(1), Pace(2, 60), Pace(3, 70)});
  EXPECT_THAT(report.text, HasSubstr("\nall ranks of node 1 (gpu1) are slow"));
  EXPECT_EQ(report.slow[0].rank, 3);  // the worst first
}

TEST(StragglerTest, ARankSlowerThanItWasIsNamedThoughOthersAreAsSlow) {
  RankPace now = Pace(0);
  now.best_median = milliseconds(70);
  const StragglerReport report = FindStragglers({now, Pace(1)});
  ASSERT_EQ(report.slow.size(), 1U);
  EXPECT_THAT(report.text,
              HasSubstr("rank 0 (node 0, gpu0): 0.70, steps take 100.0 ms, 70.0 ms at its best"));
  now.best_median = milliseconds(75);
  EXPECT_THAT(FindStragglers({now}).slow, IsEmpty());
}

TEST(StragglerTest, BothReasonsAreToldWithTheSmallerScore) {
  RankPace now = Pace(1, 50);
  now.best_median = milliseconds(40);
  const StragglerReport report = FindStragglers({Pace(0), now});
  EXPECT_DOUBLE_EQ(report.slow[0].score, 0.4);
  EXPECT_THAT(report.slow[0].reason, AllOf(HasSubstr("for itself"), HasSubstr("at its best")));
}

TEST(StragglerTest, TwentyStepsAreNeeded) {
  RankPace young = Pace(1, 500);
  young.steps = 19;
  EXPECT_THAT(FindStragglers({Pace(0), young}).slow, IsEmpty());
  EXPECT_EQ(FindStragglers({young}).text, "no rank has timed 20 steps yet");
  EXPECT_EQ(FindStragglers({}).text, "no rank has timed 20 steps yet");
}

TEST(StragglerTest, RanksThatTellNoPhaseTimesAreNotBlamed) {
  EXPECT_THAT(FindStragglers({Pace(0), Pace(1, 0, 0, 0)}).slow, IsEmpty());
}

}  // namespace
}  // namespace lr::launcher
