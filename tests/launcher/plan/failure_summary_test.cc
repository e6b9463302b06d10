#include "launcher/plan/failure_summary.h"

#include <csignal>
#include <cstdlib>
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

WorkerEnding Failure(int rank, int exit_code) {
  WorkerEnding ending;
  ending.rank = rank;
  ending.local_rank = rank % 2;
  ending.node_rank = rank / 2;
  ending.host_name = "gpu01";
  ending.pid = 1000 + rank;
  ending.exit_code = exit_code;
  ending.end_unix_ns = 1'700'000'000'000'000'000;
  return ending;
}

RunOutcome Failed(const WorkerEnding& cause, std::vector<WorkerEnding> failures) {
  RunOutcome outcome;
  outcome.exit_code = cause.job_exit_code();
  outcome.root_cause = cause;
  outcome.failures = std::move(failures);
  return outcome;
}

class FailureSummaryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(FailureSummaryTest, FirstBlockHasTorchrunsShape) {
  const WorkerEnding cause = Failure(1, 7);
  const std::string text = FailureSummary(Failed(cause, {cause}), {.program = "train.py"});
  EXPECT_THAT(text, StartsWith(R"(============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2023-11-14_22:13:20
  host      : gpu01
  rank      : 1 (local_rank: 1)
  exitcode  : 7 (pid: 1001)
  error_file: <N/A>
  traceback : <the program wrote no error file>
============================================================
Most likely cause: rank 1 (node 0, gpu01, local rank 1) ended with exit code 7, no message
)"));
}

TEST_F(FailureSummaryTest, SignalIsNegativeAndNamed) {
  WorkerEnding cause = Failure(0, 0);
  cause.signal = SIGKILL;
  EXPECT_THAT(FailureSummary(Failed(cause, {cause}), {.program = "p"}),
              AllOf(HasSubstr("exitcode  : -9 (pid: 1000) (SIGKILL)"),
                    HasSubstr("traceback : Signal 9 (SIGKILL) received by PID 1000"),
                    HasSubstr("killed by an unknown sender")));
}

TEST_F(FailureSummaryTest, OthersAreListedAndCalledConsequences) {
  const WorkerEnding cause = Failure(3, 1);
  const std::string text = FailureSummary(
      Failed(cause, {cause, Failure(0, 1), Failure(1, 1), Failure(2, 1), Failure(6, 1)}),
      {.program = "p"});
  EXPECT_THAT(text,
              AllOf(HasSubstr("[4]:\n"),
                    Not(HasSubstr("[5]:")),
                    HasSubstr("also     : ranks 0-2,6 ended (exit code 1)\n")));
}

TEST_F(FailureSummaryTest, OthersAreGroupedByWhatBecameOfThem) {
  const WorkerEnding cause = Failure(3, 1);
  WorkerEnding lost = Failure(0, 1);
  lost.last_lines = {"Connection reset by peer"};
  WorkerEnding stopped = Failure(1, 0);
  stopped.signal = SIGTERM;
  stopped.stopped_by_us = true;
  EXPECT_THAT(
      FailureSummary(Failed(cause, {cause, lost, stopped, Failure(2, 9)}), {.program = "p"}),
      HasSubstr("also     : rank 2 ended (exit code 9); rank 0 ended as a consequence (peer lost); "
                "rank 1 ended as a consequence (stopped by lr-launch)\n"));
}

TEST_F(FailureSummaryTest, TorchrunsBlockKeepsTheFirstObservedAndTheNoteSaysSo) {
  WorkerEnding lost = Failure(0, 1);
  lost.last_lines = {"Connection reset by peer"};
  const WorkerEnding cause = Failure(3, 7);
  const std::string text = FailureSummary(Failed(cause, {lost, cause}), {.program = "p"});
  EXPECT_THAT(text.substr(text.find("Root Cause")), HasSubstr("rank      : 0 (local_rank: 0)"));
  EXPECT_THAT(text,
              AllOf(HasSubstr("Most likely cause: rank 3 (node 1, gpu01, local rank 1)"),
                    HasSubstr("note     : rank 0 ended first, but as a consequence (peer lost)")));
}

TEST_F(FailureSummaryTest, WordsOfARankThatWasStoppedMeanwhileTellTheFirstCause) {
  WorkerEnding lost = Failure(0, 1);
  lost.last_lines = {"Connection reset by peer"};
  WorkerEnding stopped = Failure(1, 0);
  stopped.signal = SIGTERM;
  stopped.stopped_by_us = true;
  EXPECT_THAT(FailureSummary(Failed(lost, {lost, stopped}), {.program = "p"}),
              HasSubstr("this looks like a consequence; the first cause was not seen\n"));
  stopped.last_lines = {"CUDA out of memory"};
  EXPECT_THAT(FailureSummary(Failed(lost, {lost, stopped}), {.program = "p"}),
              HasSubstr("rank 1, stopped meanwhile, had written: CUDA out of memory (out of device "
                        "memory)\n"));
}

TEST_F(FailureSummaryTest, LabelEvidenceAndAdvice) {
  WorkerEnding cause = Failure(1, 0);
  cause.signal = SIGKILL;
  cause.kernel_evidence = "1 kill for lack of memory in control group /job";
  cause.last_lines = {"progress"};
  cause.last_lines_are_stdout = true;
  EXPECT_THAT(FailureSummary(Failed(cause, {cause}), {.program = "p"}), HasSubstr(R"(
Most likely cause: rank 1 (node 0, gpu01, local rank 1) was killed by the kernel for lack of memory, signal 9 (SIGKILL)
  evidence : 1 kill for lack of memory in control group /job
  last lines of rank 1 (stdout):
      progress
  next     : raise the memory limit)"));
}

TEST_F(FailureSummaryTest, MessageStepsAndLastLinesAreShown) {
  WorkerEnding cause = Failure(1, 1);
  cause.error_file = "/run/1/error.json";
  cause.message = "Traceback (most recent call last):\n  File \"x.py\"\nValueError: bad shape\n";
  for (int i = 0; i < 50; ++i) {
    cause.last_lines.push_back("line " + std::to_string(i));
  }
  const std::string text = FailureSummary(Failed(cause, {cause}),
                                          {.program = "p",
                                           .run_directory = "/runs/x",
                                           .steps = {{1, 41233}},
                                           .checkpoint_step = 41000});
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("error_file: /run/1/error.json"),
            HasSubstr("  traceback : Traceback (most recent call last):\n    File \"x.py\"\n"
                      "  ValueError: bad shape\n===="),
            HasSubstr("local rank 1) ended with exit code 1: ValueError: bad shape\n"),
            HasSubstr("step     : 41233 (last complete checkpoint: step 41000)"),
            HasSubstr("      line 49\n"),
            Not(HasSubstr("      line 29\n")),
            HasSubstr("record   : /runs/x")));
}

TEST_F(FailureSummaryTest, NoWorkerFailedGivesTheReason) {
  RunOutcome outcome;
  outcome.reason = "node 1 (gpu02) was lost";
  EXPECT_EQ(FailureSummary(outcome, {.program = "p"}), "p FAILED: node 1 (gpu02) was lost\n");
}

}  // namespace
}  // namespace lr::launcher
