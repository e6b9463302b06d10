#include "launcher/cli/dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DialectTest, TheNameDecides) {
  const auto torchrun = ReadInvocation({"/usr/bin/torchrun", "launch", "x"});
  ASSERT_THAT(torchrun, IsOk());
  EXPECT_EQ(torchrun->dialect, Dialect::kTorchrun);
  EXPECT_THAT(torchrun->arguments, ElementsAre("launch", "x"));
  const auto accelerate = ReadInvocation({"bin/accelerate", "launch", "--cpu", "x"});
  ASSERT_THAT(accelerate, IsOk());
  EXPECT_EQ(accelerate->dialect, Dialect::kAccelerate);
  EXPECT_THAT(accelerate->arguments, ElementsAre("--cpu", "x"));
  EXPECT_EQ(ReadInvocation({"accelerate-launch", "x"})->dialect, Dialect::kAccelerate);
}

TEST(DialectTest, SoDoesTheFirstArgument) {
  const auto launch = ReadInvocation({"lr-launch", "launch", "x"});
  EXPECT_EQ(launch->dialect, Dialect::kAccelerate);
  EXPECT_THAT(launch->arguments, ElementsAre("x"));
  const auto plain = ReadInvocation({"lr-launch", "x", "launch"});
  EXPECT_EQ(plain->dialect, Dialect::kTorchrun);
  EXPECT_THAT(plain->arguments, ElementsAre("x", "launch"));
  EXPECT_THAT(ReadInvocation({})->arguments, IsEmpty());
}

TEST(DialectTest, OtherSubCommandsAreRefusedAsConfiguration) {
  for (const char* command : {"config", "env", "test", "estimate-memory"}) {
    EXPECT_THAT(
        ReadInvocation({"accelerate", command}),
        StatusIs(
            StatusCode::kFailedPrecondition,
            AllOf(HasSubstr(command), HasSubstr("--parallelism.*"), HasSubstr("--accelerator.*"))));
  }
  EXPECT_THAT(ReadInvocation({"accelerate"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("accelerate launch")));
  EXPECT_THAT(ReadInvocation({"accelerate", "--help"})->arguments, ElementsAre("--help"));
}

}  // namespace
}  // namespace lr::launcher
