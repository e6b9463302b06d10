#include "launcher/plan/save_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

TEST(SaveTimeTest, OneAndAHalfSavesAndTwoStepsMustFit) {
  const SaveEstimates estimates{.step_s = 2.0, .save_s = 10.0};  // 15 + 4
  EXPECT_TRUE(CheckTime(estimates, 19s).fits);
  const TimeCheck late = CheckTime(estimates, 18'900ms);
  EXPECT_FALSE(late.fits);
  EXPECT_THAT(late.reason, StartsWith("NOT_ENOUGH_TIME: needed 19.0 s"));
  EXPECT_THAT(late.reason, HasSubstr("have 18.9 s"));
}

TEST(SaveTimeTest, WithoutAMeasurementItIsTried) {
  EXPECT_TRUE(CheckTime({}, 1ms).fits);
  EXPECT_TRUE(CheckTime({.step_s = 100.0, .save_s = 0.0}, 1ms).fits);
  EXPECT_THAT(CheckTime({}, 1s).reason, HasSubstr("no save was measured yet"));
}

TEST(SaveTimeTest, LeadIsTwoSavesTwoStepsAndHalfAMinute) {
  EXPECT_EQ(LeadTime({}), 30s);
  EXPECT_EQ(LeadTime({.step_s = 1.5, .save_s = 20.0}), 73s);
}

TEST(SaveTimeTest, GraceShrinksWithWhatIsLeftAndNeverGrows) {
  EXPECT_EQ(GraceWithin(30s, std::nullopt), 30s);
  EXPECT_EQ(GraceWithin(30s, 20s), 15s);
  EXPECT_EQ(GraceWithin(30s, 600s), 30s);
  EXPECT_EQ(GraceWithin(30s, 10s), 5s);
  EXPECT_EQ(GraceWithin(30s, 3s), 1'500ms) << "a short notice is used, too";
  EXPECT_EQ(GraceWithin(30s, 0s), 0ms);
}

}  // namespace
}  // namespace lr::launcher
