#include "launcher/supervise/sweeper.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/supervise/process_tree.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

bool Alive(const ProcessInfo& process) {
  const auto now = ReadProcess(process.pid);
  return now && now->start_time == process.start_time && !now->zombie();
}

SpawnedProcess StartSleeper(Variables environment) {
  environment["PATH"] = "/usr/bin:/bin";
  return std::move(
             Spawn(
                 {.executable = "/bin/sleep", .argv = {"sleep", "67"}, .environment = environment}))
      .value();
}

/// Forks a stand-in for the launcher that starts a sweeper and two helpers, reports them and waits
/// to be killed.
TEST(SweeperTest, SigkillOfTheLauncherLeavesNothing) {
  Pipe report = *MakePipe();
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto sweeper = Sweeper::Start("LR_NODE_ID=sweeper-test");
    // Parent-death signals are left out on purpose: a process that outlives them is the sweeper's
    // work.
    const pid_t marked = fork();
    if (marked == 0) {
      setenv("LR_NODE_ID", "sweeper-test", 1);
      setsid();
      execl("/bin/sleep", "sleep", "67", nullptr);
      _exit(1);
    }
    const pid_t clean = fork();
    if (clean == 0) {
      setsid();
      execl("/bin/sleep", "sleep", "68", nullptr);
      _exit(1);
    }
    std::this_thread::sleep_for(100ms);
    sweeper->Watch(clean, ReadProcess(clean)->start_time);
    const pid_t pids[] = {marked, clean, *sweeper->pids().begin()};
    if (write(report.write_end.get(), pids, sizeof(pids)) < 0) {
      _exit(1);
    }
    pause();
    _exit(0);
  }
  report.write_end.Reset(-1);
  pid_t pids[3] = {};
  ASSERT_EQ(read(report.read_end.get(), pids, sizeof(pids)), static_cast<ssize_t>(sizeof(pids)));
  std::vector<ProcessInfo> watched;
  for (const pid_t pid : pids) {
    watched.push_back(*ReadProcess(pid));
    EXPECT_TRUE(Alive(watched.back()));
  }
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  while (std::ranges::any_of(watched, Alive) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
  }
  for (const ProcessInfo& process : watched) {
    EXPECT_FALSE(Alive(process)) << process.command << " " << process.pid;
  }
}

bool Within2s(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

std::vector<ProcessInfo> Living(const std::set<pid_t>& pids) {
  std::vector<ProcessInfo> living;
  for (const pid_t pid : pids) {
    const auto process = ReadProcess(pid);
    if (process && !process->zombie()) {
      living.push_back(*process);
    }
  }
  return living;
}

TEST(SweeperTest, EachReplacesTheOther) {
  auto sweeper = Sweeper::Start("LR_NODE_ID=replaced-test");
  ASSERT_THAT(sweeper, IsOk());
  const auto two = [&] { return Living(sweeper->pids()).size() == 2; };
  ASSERT_TRUE(Within2s(two));
  for (const size_t which : {0U, 1U, 0U, 0U, 1U, 1U}) {
    const ProcessInfo killed = Living(sweeper->pids())[which];
    kill(killed.pid, SIGKILL);
    ASSERT_TRUE(Within2s([&] { return !sweeper->pids().contains(killed.pid) && two(); }));
    EXPECT_FALSE(Alive(killed));
  }
  const std::set<pid_t> last = sweeper->pids();
  sweeper->Dismiss();
  EXPECT_THAT(Living(last), ::testing::IsEmpty());
}

TEST(SweeperTest, DismissedSweeperTouchesNothing) {
  auto sweeper = Sweeper::Start("LR_NODE_ID=dismissed-test");
  ASSERT_THAT(sweeper, IsOk());
  const SpawnedProcess sleeper = StartSleeper({{"LR_NODE_ID", "dismissed-test"}});
  const ProcessInfo info = *ReadProcess(sleeper.pid);
  sweeper->Dismiss();
  EXPECT_TRUE(Alive(info));
  kill(sleeper.pid, SIGKILL);
  waitpid(sleeper.pid, nullptr, 0);
}

/// Helpers in the workers' groups, which no parent-death signal reaches, without any sweeper.
TEST(LifelineTest, TheGroupDiesWithTheProcessThatStartedIt) {
  for (const bool killed : {true, false}) {
    Pipe report = *MakePipe();
    const pid_t launcher = fork();
    if (launcher == 0) {
      std::vector<SpawnedProcess> workers;
      for (int i = 0; i < 3; ++i) {
        workers.push_back(*Spawn({.executable = "/bin/sh",
                                  .argv = {"sh", "-c", "(trap '' TERM HUP; exec sleep 67) & wait"},
                                  .environment = {{"PATH", "/usr/bin:/bin"}}}));
        if (write(report.write_end.get(), &workers.back().pid, sizeof(pid_t)) < 0) {
          _exit(1);
        }
      }
      if (killed) {
        pause();
      }
      std::this_thread::sleep_for(100ms);
      _exit(0);
    }
    std::vector<ProcessInfo> helpers;
    for (int i = 0; i < 3; ++i) {
      pid_t worker = 0;
      ASSERT_EQ(read(report.read_end.get(), &worker, sizeof(worker)),
                static_cast<ssize_t>(sizeof(worker)));
      ASSERT_TRUE(Within2s([&] {
        for (const ProcessInfo& process : ListProcesses()) {
          if (process.parent == worker && process.command == "sleep") {
            helpers.push_back(process);
            return true;
          }
        }
        return false;
      }));
    }
    if (killed) {
      kill(launcher, SIGKILL);
    }
    waitpid(launcher, nullptr, 0);
    EXPECT_TRUE(Within2s([&] { return std::ranges::none_of(helpers, Alive); })) << killed;
  }
}

TEST(LifelineTest, DroppingItKillsTheGroup) {
  std::optional<SpawnedProcess> worker = StartSleeper({});
  const ProcessInfo sleeper = *ReadProcess(worker->pid);
  worker.reset();
  int status = 0;
  ASSERT_EQ(waitpid(sleeper.pid, &status, 0), sleeper.pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(SpawnTest, ChildDiesWithTheProcessThatStartedIt) {
  Pipe report = *MakePipe();
  const pid_t launcher = fork();
  if (launcher == 0) {
    const SpawnedProcess sleeper = StartSleeper({});
    if (write(report.write_end.get(), &sleeper.pid, sizeof(sleeper.pid)) < 0) {
      _exit(1);
    }
    pause();
    _exit(0);
  }
  pid_t pid = 0;
  ASSERT_EQ(read(report.read_end.get(), &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  const ProcessInfo sleeper = *ReadProcess(pid);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  while (Alive(sleeper) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_FALSE(Alive(sleeper));
}

}  // namespace
}  // namespace lr::launcher
