#include "launcher/plan/preempt_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::HasSubstr;
using std::chrono_literals::operator""s;

TEST(PreemptPlanTest, TheEarliestEndCounts) {
  PreemptPlan plan;
  EXPECT_EQ(TimeLeft(plan, 10s, 1000), std::nullopt);
  plan.time_limit = 100s;
  EXPECT_EQ(TimeLeft(plan, 10s, 1000), 90s);
  plan.job_end_unix = 1050;
  EXPECT_EQ(TimeLeft(plan, 10s, 1000), 50s);
  EXPECT_EQ(TimeLeft(plan, 60s, 1000), 40s);
  EXPECT_EQ(TimeLeft(plan, 10s, 2000), 0s) << "over already";
}

TEST(PreemptPlanTest, TheLastSaveBeginsTheLeadTimeBeforeTheEnd) {
  EXPECT_EQ(LastSaveIn(3600s, {}), 3570s);
  EXPECT_EQ(LastSaveIn(3600s, {.step_s = 5.0, .save_s = 100.0}), 3360s);
  EXPECT_EQ(LastSaveIn(40s, {}), 20s) << "a short job still does something";
  EXPECT_EQ(LastSaveIn(0s, {}), 0s);
}

TEST(PreemptPlanTest, ANoticeMayTellTheSecondsThatAreLeft) {
  const Notice spot = ReadNotice("120 spot instance is reclaimed\r");
  EXPECT_EQ(spot.within, 120s);
  EXPECT_THAT(spot.text, HasSubstr("notice: 120 spot instance is reclaimed"));
  EXPECT_EQ(ReadNotice("30").within, 30s);
  EXPECT_EQ(ReadNotice("TERMINATE").within, std::nullopt);
  EXPECT_EQ(ReadNotice("").text, "--preempt-watch gave notice");
  for (const char* odd : {"-5 s", "99999999999 x", "3x", "1700000000 at that time"}) {
    EXPECT_EQ(ReadNotice(odd).within, std::nullopt) << odd;
  }
}

TEST(PreemptPlanTest, OnlyAnEndInOrderIsANotice) {
  EXPECT_TRUE(JudgeWatchEnd(0, 0).notice);
  EXPECT_FALSE(JudgeWatchEnd(127, 0).notice);
  EXPECT_THAT(JudgeWatchEnd(127, 0).text, HasSubstr("exit code 127"));
  EXPECT_FALSE(JudgeWatchEnd(0, 9).notice);
  EXPECT_THAT(JudgeWatchEnd(0, 9).text, HasSubstr("signal 9"));
}

}  // namespace
}  // namespace lr::launcher
