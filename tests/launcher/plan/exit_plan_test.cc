#include "launcher/plan/exit_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RunOutcome Outcome(bool succeeded, int code, const std::string& reason) {
  RunOutcome outcome;
  outcome.succeeded = succeeded;
  outcome.exit_code = code;
  outcome.reason = reason;
  return outcome;
}

RunOutcome Failed(int code) {
  WorkerEnding ending;
  ending.rank = 1;
  ending.exit_code = code;
  return {.succeeded = false,
          .exit_code = code,
          .reason = "rank 1 ended with exit code 7",
          .root_cause = ending,
          .failures = {ending},
          .next = ""};
}

TEST(ExitPlanTest, SuccessSaysNothing) {
  const ExitPlan plan = DecideExit(Outcome(true, 0, "all done"), {.program = "p"}, {});
  EXPECT_EQ(plan.code, 0);
  EXPECT_THAT(plan.text, IsEmpty());
}

TEST(ExitPlanTest, FailureKeepsTheWorkersCodeAndShowsTheBlock) {
  const ExitPlan plan = DecideExit(Failed(7), {.program = "train.py"}, {});
  EXPECT_EQ(plan.code, 7);
  EXPECT_THAT(plan.text, AllOf(HasSubstr("train.py FAILED"), HasSubstr("Most likely cause")));
}

TEST(ExitPlanTest, TorchrunsCodeIsOneForEveryFailure) {
  EXPECT_EQ(DecideExit(Failed(7), {.program = "p"}, {.fold = true}).code, 1);
  EXPECT_EQ(DecideExit(Outcome(true, 0, ""), {.program = "p"}, {.fold = true}).code, 0);
}

TEST(ExitPlanTest, QuietKeepsTheCode) {
  const ExitPlan plan = DecideExit(Failed(7), {.program = "p"}, {.quiet = true});
  EXPECT_EQ(plan.code, 7);
  EXPECT_EQ(plan.text, "lr-launch: rank 1 ended with exit code 7\n");
}

TEST(ExitPlanTest, SignalEndsWithoutAFailureBlock) {
  const ExitPlan plan = DecideExit(Outcome(false, 143, "stopped by SIGTERM"), {.program = "p"}, {});
  EXPECT_EQ(plan.code, 143);
  EXPECT_THAT(plan.text, AllOf(HasSubstr("stopped by SIGTERM"), Not(HasSubstr("FAILED"))));
}

TEST(ExitPlanTest, FailureWithoutACodeIsNeverReportedAsSuccess) {
  EXPECT_EQ(DecideExit(Outcome(false, 0, "?"), {.program = "p"}, {}).code, 70);
  EXPECT_EQ(DecideExit(Failed(256), {.program = "p"}, {}).code, 70);
}

}  // namespace
}  // namespace lr::launcher
