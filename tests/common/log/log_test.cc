#include "common/log/log.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/support/status_matchers.h"

namespace lr::log {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("LR_LOG_LEVEL"); }

  Options Collecting(const std::string& prefix) {
    return {.prefix = prefix, .sink = [this](std::string_view line) { lines_.emplace_back(line); }};
  }

  std::vector<std::string> lines_;
};

TEST_F(LogTest, EachMessageIsOneLineWithThePrefix) {
  ASSERT_THAT(log::SetUp(Collecting("rank 3 (100%)")), IsOk());
  spdlog::info("worker exited code={}", 7);
  EXPECT_THAT(lines_, ElementsAre(EndsWith(" info rank 3 (100%): worker exited code=7\n")));
}

TEST_F(LogTest, PrefixMayFollowTheRank) {
  ASSERT_THAT(log::SetUp(Collecting("")), IsOk());
  SetPrefix("node 1");
  spdlog::warn("late");
  EXPECT_THAT(lines_, ElementsAre(EndsWith(" warning node 1: late\n")));
}

TEST_F(LogTest, EnvironmentChoosesTheLevel) {
  ::setenv("LR_LOG_LEVEL", "error", 1);
  ASSERT_THAT(log::SetUp(Collecting("x")), IsOk());
  spdlog::warn("not shown");
  spdlog::error("shown");
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("shown")));
}

TEST_F(LogTest, UnknownLevelNamesTheKnownOnes) {
  ::setenv("LR_LOG_LEVEL", "loud", 1);
  EXPECT_THAT(log::SetUp(Collecting("x")),
              StatusIs(StatusCode::kInvalidArgument,
                       ::testing::AllOf(
                           HasSubstr("LR_LOG_LEVEL"), HasSubstr("'loud'"), HasSubstr("debug"))));
}

}  // namespace
}  // namespace lr::log
