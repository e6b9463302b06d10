#include "common/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr {
namespace {

TEST(TextTest, NearestNameFindsTypingErrorsOnly) {
  const std::vector<std::string> names = {"batch_size", "steps", "seed"};
  EXPECT_EQ(NearestName("batchsize", names), "batch_size");
  EXPECT_EQ(NearestName("step", names), "steps");
  EXPECT_EQ(NearestName("output_dir", names), std::nullopt);
}

TEST(TextTest, ShortNumberRoundsHalfToEven) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(25650), "26K");
  EXPECT_EQ(ShortNumber(2500), "2K");
  EXPECT_EQ(ShortNumber(51613582), "52M");
  EXPECT_EQ(ShortNumber(999), "999");
}

TEST(TextTest, ParseIntTakesWholeDecimalNumbersOnly) {
  EXPECT_EQ(ParseInt("-12"), -12);
  EXPECT_EQ(ParseInt("12x"), std::nullopt);
  EXPECT_EQ(ParseInt(""), std::nullopt);
  EXPECT_EQ(ParseInt("1e5"), std::nullopt);
  EXPECT_EQ(ParseInt("99999999999999999999"), std::nullopt);
}

TEST(TextTest, SplitKeepsEmptyParts) {
  EXPECT_THAT(Split("a,,b", ','), ::testing::ElementsAre("a", "", "b"));
  EXPECT_THAT(Split("", ','), ::testing::ElementsAre(""));
  EXPECT_EQ(Trim("  a b\n"), "a b");
}

}  // namespace
}  // namespace lr
