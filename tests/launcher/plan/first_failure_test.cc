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

}  // namespace
}  // namespace lr::launcher
