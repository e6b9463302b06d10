#include "launcher/supervise/line_filter.h"

#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

TEST(LineFilterTest, LinesThatContainOneOfTheTextsAreCopiedWithThePrefix) {
  LineFilter filter({"loss", "lr"}, "[w0]:");
  EXPECT_EQ(filter.Feed("loss 1\nother\nlr 2\n"), "[w0]:loss 1\n[w0]:lr 2\n");
}

TEST(LineFilterTest, LinesAreJoinedAcrossReads) {
  LineFilter filter({"loss"}, "");
  EXPECT_EQ(filter.Feed("lo"), "");
  EXPECT_EQ(filter.Feed("ss 1\nthe lo"), "loss 1\n");
  EXPECT_EQ(filter.Feed("ss"), "");
  EXPECT_EQ(filter.Finish(), "the loss\n");
  EXPECT_EQ(filter.Finish(), "");
}

TEST(LineFilterTest, EndlessLineIsNotHeldForEver) {
  LineFilter filter({"x"}, "");
  size_t copied = 0;
  for (int i = 0; i < 100; ++i) {
    copied += filter.Feed(std::string(10'000, 'x')).size();
  }
  EXPECT_GT(copied, 900'000U);
}

}  // namespace
}  // namespace lr::launcher
