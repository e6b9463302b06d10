#include "worker/train/progress_bar.h"

#include <gtest/gtest.h>

namespace lr::worker {
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

TEST(ProgressTextTest, NothingDoneYetHasNoEstimate) {
  EXPECT_NE(ProgressText(0, 10, seconds(0), 80).find("[00:00<?, ?step/s]"), std::string::npos);
}

}  // namespace
}  // namespace lr::worker
