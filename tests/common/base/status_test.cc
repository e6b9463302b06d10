#include "common/base/status.h"

#include "tests/support/status_matchers.h"

namespace lr {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

Result<int> Half(int value) {
  if (value % 2 != 0) {
    return InvalidArgument("{} is odd", value);
  }
  return value / 2;
}

Result<int> Quarter(int value) {
  LR_ASSIGN(const int half, Half(value).WithContext("first half"));
  LR_TRY(Half(half).WithContext("second half of {}", value));
  return half / 2;
}

TEST(StatusTest, ContextIsAddedOnTheWayUp) {
  EXPECT_THAT(Quarter(8), IsOk());
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_THAT(Quarter(7), StatusIs(StatusCode::kInvalidArgument, "first half: 7 is odd"));
  EXPECT_THAT(Quarter(6), StatusIs(StatusCode::kInvalidArgument, "second half of 6: 3 is odd"));
}

TEST(StatusTest, ToStringNamesTheCanonicalCode) {
  EXPECT_EQ(NotFound("no file '{}'", "x").ToString(), "NOT_FOUND: no file 'x'");
  EXPECT_EQ(Status().ToString(), "OK");
}

TEST(StatusDeathTest, ValueOfAFailedResultAborts) {
  EXPECT_DEATH((void)Half(3).value(), HasSubstr("3 is odd"));
}

}  // namespace
}  // namespace lr
