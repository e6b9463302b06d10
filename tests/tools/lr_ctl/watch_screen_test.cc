#include "tools/lr_ctl/watch_screen.h"

#include <gtest/gtest.h>

namespace lr {
namespace {

TEST(WatchScreenTest, LinesAreCutBetweenCharacters) {
  EXPECT_EQ(FitToScreen("abcdef\nab", {.columns = 4, .rows = 24}), "abcd\nab");
  EXPECT_EQ(FitToScreen("abc\xC3\xA4", {.columns = 4, .rows = 24}), "abc");
}

TEST(WatchScreenTest, SaysHowManyLinesAreHidden) {
  EXPECT_EQ(FitToScreen("1\n2\n3\n4\n5", {.columns = 80, .rows = 4}), "1\n2\n... 3 more lines");
  EXPECT_EQ(FitToScreen("1\n2\n3", {.columns = 80, .rows = 4}), "1\n2\n3");
}

TEST(WatchScreenTest, ReplacesWhatItShowed) {
  EXPECT_EQ(Redraw("", "a\nb"), "a\nb\n");
  EXPECT_EQ(Redraw("a\nb", "c"), "\x1b[2A\r\x1b[Jc\n");
}

}  // namespace
}  // namespace lr
