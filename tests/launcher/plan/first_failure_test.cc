#include "launcher/plan/first_failure.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

WorkerEnding Ending(int rank, int exit_code, double at_s) {
  WorkerEnding ending;
  ending.rank = rank;
  ending.host_name = "gpu01";
  ending.pid = 100 + rank;
  ending.exit_code = exit_code;
  ending.end_unix_ns = static_cast<int64_t>(at_s * kSecond);
  return ending;
}

WorkerEnding Saying(WorkerEnding ending, const std::string& line) {
  ending.last_lines = {"earlier", line, "later"};
  return ending;
}

WorkerEnding Stopped(WorkerEnding ending) {
  ending.stopped_by_us = true;
  return ending;
}

TEST(FirstFailureTest, EarliestFailureIsTheCauseWhateverTheOrderOfArrival) {
  const FirstFailure first =
      ChooseFirstFailure({Ending(0, 1, 9.0), Ending(1, 7, 5.0), Ending(2, 0, 1.0)});
  ASSERT_TRUE(first.root_cause);
  EXPECT_EQ(first.root_cause->rank, 1);
  EXPECT_EQ(first.failures.size(), 2);
  EXPECT_THAT(first.reason,
              HasSubstr("rank 1 (node 0, gpu01, local rank 0) ended with exit code 7"));
}

TEST(FirstFailureTest, EndingsThatWeCausedAreNotTheCause) {
  WorkerEnding killed = Stopped(Ending(0, 0, 1.0));
  killed.signal = SIGTERM;
  const FirstFailure first = ChooseFirstFailure({killed, Ending(1, 7, 2.0)});
  ASSERT_TRUE(first.root_cause);
  EXPECT_EQ(first.root_cause->rank, 1);
}

TEST(FirstFailureTest, ConsequencesAreSetAside) {
  const FirstFailure first = ChooseFirstFailure(
      {Saying(Ending(0, 1, 1.0), "RuntimeError: Connection closed by peer [10.0.0.2]"),
       Ending(1, 42, 1.5)});
  ASSERT_TRUE(first.root_cause);
  EXPECT_EQ(first.root_cause->rank, 1);
  EXPECT_FALSE(first.only_secondary);
}

TEST(FirstFailureTest, OnlyConsequencesSaySo) {
  const FirstFailure first =
      ChooseFirstFailure({Saying(Ending(0, 1, 2.0), "Connection reset by peer"),
                          Saying(Ending(1, 1, 1.0), "Connection reset by peer")});
  ASSERT_TRUE(first.root_cause);
  EXPECT_EQ(first.root_cause->rank, 1);
  EXPECT_TRUE(first.only_secondary);
  EXPECT_THAT(first.reason, HasSubstr("the first cause was not seen"));
}

TEST(FirstFailureTest, StoppedRunHasNoCause) {
  const FirstFailure first = ChooseFirstFailure({Stopped(Ending(0, 1, 1.0)), Ending(1, 0, 2.0)});
  EXPECT_FALSE(first.root_cause);
  EXPECT_EQ(first.failures.size(), 1);
}

struct LabelCase {
  const char* line;
  const char* label;
  bool secondary;
};

class LabelTest : public ::testing::TestWithParam<LabelCase> {};

TEST_P(LabelTest, LineIsRecognised) {
  const FailureLabel label = LabelFailure(Saying(Ending(0, 1, 1.0), GetParam().line));
  EXPECT_EQ(label.name, GetParam().label);
  EXPECT_EQ(label.evidence, GetParam().line);
  EXPECT_EQ(label.secondary, GetParam().secondary);
}

INSTANTIATE_TEST_SUITE_P(
    Lines,
    LabelTest,
    ::testing::Values(
        LabelCase{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
                  "out of device memory",
                  false},
        LabelCase{"terminate called after throwing an instance of 'std::bad_alloc'",
                  "out of host memory",
                  false},
        LabelCase{"OSError: [Errno 28] No space left on device", "no space left on device", false},
        LabelCase{"ModuleNotFoundError: No module named 'torch'", "import error", false},
        LabelCase{"x: error while loading shared libraries: libfoo.so: cannot open shared object "
                  "file: No such file or directory",
                  "missing shared library",
                  false},
        LabelCase{"SyntaxError: invalid syntax", "syntax error", false},
        LabelCase{"OSError: [Errno 98] Address already in use", "port in use", false},
        LabelCase{"requests.exceptions.HTTPError: 401 Client Error: Unauthorized",
                  "authorization error",
                  false},
        LabelCase{
            "FileNotFoundError: [Errno 2] No such file or directory: 'x'", "missing file", false},
        LabelCase{"RuntimeError: CUDA error: device-side assert triggered", "device error", false},
        LabelCase{
            "ncclRemoteError: A call failed possibly due to a network error", "peer lost", true},
        LabelCase{"Watchdog caught collective operation timeout: WorkNCCL",
                  "collective time-out",
                  true}));

TEST(FirstFailureTest, UsageErrorNeedsCodeTwoUsageTextAndShortLife) {
  WorkerEnding ending = Saying(Ending(0, 2, 1.0), "usage: train.py [-h]");
  EXPECT_EQ(LabelFailure(ending).name, "usage error of the program");
  ending.end_unix_ns = 60 * kSecond;
  EXPECT_EQ(LabelFailure(ending).name, "");
}

TEST(FirstFailureTest, SignalsAreNamedWithoutGuessing) {
  WorkerEnding ending = Ending(0, 0, 1.0);
  ending.signal = SIGKILL;
  EXPECT_EQ(LabelFailure(ending).name, "killed by an unknown sender");
  EXPECT_EQ(DescribeEnding(ending), "signal 9 (SIGKILL)");
  EXPECT_EQ(ending.job_exit_code(), 137);
  ending.signal = SIGSEGV;
  ending.core_dumped = true;
  EXPECT_EQ(LabelFailure(ending).name, "segmentation fault");
  EXPECT_EQ(DescribeEnding(ending), "signal 11 (SIGSEGV), core dumped");
  EXPECT_EQ(SignalName(200), "signal 200");
}

TEST(FirstFailureTest, UnknownFailuresGetNoLabel) {
  EXPECT_EQ(LabelFailure(Ending(0, 7, 1.0)).name, "");
  EXPECT_EQ(LabelFailure(Ending(0, 0, 1.0)).name, "");
}

}  // namespace
}  // namespace lr::launcher
