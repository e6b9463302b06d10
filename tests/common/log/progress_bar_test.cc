#include "common/log/progress_bar.h"

#include <gtest/gtest.h>

namespace lr {
namespace {

using std::chrono::seconds;

TEST(ProgressTextTest, ShowsShareRateAndTimeLeft) {
  const std::string text = ProgressText(50, 200, seconds(25), 100);
  EXPECT_EQ(text.substr(0, 15), "Training:  25%|");
  EXPECT_NE(text.find("| 50/200 [00:25<01:15,  2.00step/s]"), std::string::npos) << text;
}

TEST(ProgressTextTest, SlowStepsAreShownAsSecondsPerStep) {
  EXPECT_NE(ProgressText(2, 4, seconds(6), 80).find(" 3.00s/step"), std::string::npos);
}

TEST(ProgressTextTest, CountsWhatItIsTold) {
  const std::string text = ProgressText(30, 60, seconds(1), 100, {"Converting", "MB"});
  EXPECT_EQ(text.substr(0, 17), "Converting:  50%|");
  EXPECT_NE(text.find("| 30/60 [00:01<00:01, 30.00MB/s]"), std::string::npos) << text;
}

TEST(ProgressTextTest, NothingDoneYetHasNoEstimate) {
  EXPECT_NE(ProgressText(0, 10, seconds(0), 80).find("[00:00<?, ?step/s]"), std::string::npos);
}

}  // namespace
}  // namespace lr
