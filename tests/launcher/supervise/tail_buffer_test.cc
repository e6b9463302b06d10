#include "launcher/supervise/tail_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TailBufferTest, KeepsTheLastLines) {
  TailBuffer tail;
  tail.Append("a\nb\n");
  tail.Append("c\nhalf");
  EXPECT_THAT(tail.Lines(3), ElementsAre("b", "c", "half"));
  EXPECT_THAT(TailBuffer().Lines(3), IsEmpty());
}

TEST(TailBufferTest, StaysBounded) {
  TailBuffer tail;
  for (int i = 0; i < 100'000; ++i) {
    tail.Append("line " + std::to_string(i) + "\n");
  }
  EXPECT_THAT(tail.Lines(2), ElementsAre("line 99998", "line 99999"));
  tail.Append(std::string(1'000'000, 'x') + "\nend\n");
  EXPECT_EQ(tail.Lines(2).back(), "end");
  EXPECT_EQ(tail.Lines(2).front().size(), 2000);
}

TEST(TailBufferTest, OfAProgressBarOnlyTheLastStateAndNoControlCharacters) {
  TailBuffer tail;
  tail.Append("10%\r20%\r30%\r\n\x1b[31mred\x07\n");
  EXPECT_THAT(tail.Lines(5), ElementsAre("30%", "?[31mred?"));
}

}  // namespace
}  // namespace lr::launcher
