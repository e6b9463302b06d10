#include "launcher/report/failure_history.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;

WorkerEnding Ending(int rank, int exit_code) {
  WorkerEnding ending;
  ending.rank = rank;
  ending.exit_code = exit_code;
  ending.end_unix_ns = 1'500'000'000;
  return ending;
}

std::vector<int> Ranks(const FailureHistory& history) {
  std::vector<int> ranks;
  for (const Json& failure : history.ToJson()) {
    ranks.push_back(failure["rank"]);
  }
  return ranks;
}

TEST(FailureHistoryTest, TellsHowWhenAndWhy) {
  FailureHistory history;
  history.Begin(2);
  WorkerEnding killed = Ending(3, 0);
  killed.signal = SIGKILL;
  killed.kernel_evidence = "memory limit of the job's control group hit";
  for (int i = 0; i < 30; ++i) {
    killed.last_lines.push_back("line " + std::to_string(i));
  }
  history.Add(killed);
  const Json failure = history.ToJson().at(0);
  EXPECT_EQ(failure["attempt"], 2);
  EXPECT_EQ(failure["signal"], "SIGKILL");
  EXPECT_TRUE(failure["exit_code"].is_null());
  EXPECT_EQ(failure["ended_unix"], 1.5);
  EXPECT_EQ(failure["cause"], "killed by the kernel for lack of memory");
  EXPECT_EQ(failure["last_lines"].size(), 20);
  EXPECT_EQ(failure["last_lines"].back(), "line 29");
}

TEST(FailureHistoryTest, GoodEndingsAreNoFailures) {
  FailureHistory history;
  history.Add(Ending(0, 0));
  EXPECT_THAT(Ranks(history), ElementsAre());
}

TEST(FailureHistoryTest, EndOfAnAttemptBringsTheFailuresOfAllNodesInOrder) {
  FailureHistory history;
  history.Begin(0);
  history.Add(Ending(1, 7));
  history.Complete({Ending(4, 1), Ending(1, 7)});
  history.Begin(1);
  history.Add(Ending(2, 1));
  history.Complete({});
  EXPECT_THAT(Ranks(history), ElementsAre(4, 1, 2));
}

TEST(FailureHistoryTest, KeepsTheEarliestOfAnAttemptAndTheNewestAttempts) {
  FailureHistory history;
  for (int attempt = 0; attempt < 6; ++attempt) {
    history.Begin(attempt);
    for (int rank = 0; rank < 100; ++rank) {
      history.Add(Ending(rank, 1));
    }
  }
  const Json all = history.ToJson();
  ASSERT_EQ(all.size(), FailureHistory::kKept);
  EXPECT_EQ(all.front()["attempt"], 2);
  EXPECT_EQ(all.back()["attempt"], 5);
  EXPECT_EQ(all.back()["rank"], 31);
}

}  // namespace
}  // namespace lr::launcher
