#include "worker/control/stack_dump.h"

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/blocked_signals.h"

namespace lr::worker {

std::atomic<bool> go{false};
std::atomic<int> inside{0};

// Exported, so that the loader knows the names.
__attribute__((noinline)) void SpinWhereTheTestLooks() {
  ++inside;
  while (!go.load()) {
  }
  asm volatile("");
}

__attribute__((noinline)) void SleepWhereTheTestLooks() {
  ++inside;
  while (!go.load()) {
    usleep(1000);
  }
  asm volatile("");
}

namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class StackDumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    InstallStackHandler();
    go = false;
    inside = 0;
  }

  void TearDown() override {
    go = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void Start(void (*function)()) {
    threads_.emplace_back(function);
    const int wanted = static_cast<int>(threads_.size());
    while (inside.load() < wanted) {
      std::this_thread::yield();
    }
  }

  std::vector<std::thread> threads_;
};

TEST_F(StackDumpTest, ThreadsThatRunAndThatSleepAreShown) {
  Start(SpinWhereTheTestLooks);
  Start(SleepWhereTheTestLooks);
  pthread_setname_np(threads_[1].native_handle(), "sleeper");
  const std::string text = DumpStacks();
  EXPECT_THAT(text, HasSubstr("lr::worker::SpinWhereTheTestLooks()+0x"));
  EXPECT_THAT(text, HasSubstr("lr::worker::SleepWhereTheTestLooks()+0x"));
  EXPECT_THAT(text, HasSubstr("thread sleeper "));
  EXPECT_THAT(text, HasSubstr("(stack_dump_test+0x"));
  EXPECT_THAT(text, Not(HasSubstr("DumpStacks")));  // the one that asks is of no interest
}

TEST_F(StackDumpTest, EqualStacksAreToldOnce) {
  for (int i = 0; i < 3; ++i) {
    Start(SpinWhereTheTestLooks);
  }
  const std::string text = DumpStacks();
  size_t count = 0;
  for (size_t at = 0; (at = text.find("SpinWhereTheTestLooks", at)) != std::string::npos; ++at) {
    ++count;
  }
  EXPECT_LE(count, 3U);  // where in the loop they were may differ
  EXPECT_GE(count, 1U);
}

TEST_F(StackDumpTest, AThreadStartedWithBlockedSignalsAnswersAllTheSame) {
  {
    const BlockedSignals blocked;
    Start(SleepWhereTheTestLooks);
  }
  EXPECT_THAT(DumpStacks(), HasSubstr("SleepWhereTheTestLooks"));
}

TEST_F(StackDumpTest, AThreadThatBlocksTheSignalIsNamedWithoutAWait) {
  Start([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    SleepWhereTheTestLooks();
  });
  EXPECT_THAT(DumpStacks(std::chrono::hours(1)), HasSubstr("no stack: it blocks the signal"));
}

TEST_F(StackDumpTest, ItMayBeAskedAgainAndAgain) {
  Start(SleepWhereTheTestLooks);
  for (int i = 0; i < 300; ++i) {  // more than there are slots
    ASSERT_THAT(DumpStacks(), HasSubstr("SleepWhereTheTestLooks")) << i;
  }
}

}  // namespace
}  // namespace lr::worker
