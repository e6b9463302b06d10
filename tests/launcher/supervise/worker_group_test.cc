#include "launcher/supervise/worker_group.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/foreign_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

const std::string kMarker = "LR_NODE_ID=worker-group-test-" + std::to_string(getpid());

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A group of /bin/sh workers whose output is collected; Run() cranks the loop until everything is
/// gone.
class WorkerGroupTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    BecomeSubreaper();
    IgnoreBrokenPipes();
  }

  void SetUp() override {
    auto sweeper = Sweeper::Start(kMarker);
    ASSERT_THAT(sweeper, ::lr::testing::IsOk());
    sweeper_ = std::make_unique<Sweeper>(std::move(sweeper).value());
    pipe_ = std::move(MakePipe()).value();
    console_ = std::make_unique<Console>(pipe_.write_end.get(), pipe_.write_end.get());
    reader_ = std::thread([this] {
      std::array<char, 65536> buffer{};
      while (true) {
        const ssize_t got = read(pipe_.read_end.get(), buffer.data(), buffer.size());
        if (got > 0) {
          output_.append(buffer.data(), static_cast<size_t>(got));
        } else if (got == 0 || errno != EINTR) {  // SIGCHLD may land here
          return;
        }
      }
    });
  }

  void TearDown() override { CloseConsole(); }

  void CloseConsole() {
    if (reader_.joinable()) {
      console_->Flush(5s);
      console_.reset();
      pipe_.write_end.Reset(-1);
      reader_.join();
    }
  }

  WorkerSpec Shell(int rank, const std::string& script) {
    Variables environment = ProcessEnvironmentSnapshot();
    environment["LR_NODE_ID"] = kMarker.substr(kMarker.find('=') + 1);
    return {.rank = rank,
            .local_rank = rank,
            .node_rank = 0,
            .host_name = "host",
            .executable = "/bin/sh",
            .argv = {"sh", "-c", script},
            .environment = environment,
            .out = {.prefix = "[t" + std::to_string(rank) + "]:"},
            .err = {.prefix = "[t" + std::to_string(rank) + "]:"},
            .error_file = ""};
  }

  void Start(std::vector<WorkerSpec> specs, std::chrono::milliseconds timeout = 30s) {
    timeout_ = timeout;
    group_ = std::make_unique<WorkerGroup>(
        loop_,
        OutputSinks{.console = *console_, .logs = logs_},
        *sweeper_,
        WorkerGroup::Options{.marker = kMarker},
        WorkerGroup::Events{.ended =
                                [this](const WorkerEnding& ending) {
                                  endings_.push_back(ending);
                                  if (on_ended_) {
                                    on_ended_(ending);
                                  }
                                },
                            .gone =
                                [this](const std::vector<ProcessInfo>& leftover) {
                                  leftover_ = leftover;
                                  gone_ = true;
                                  loop_.stop();
                                }});
    group_->Start(std::move(specs));
  }

  void Run() {
    loop_.run_for(20s);
    ASSERT_TRUE(gone_) << "the group did not end";
    EXPECT_THAT(leftover_, IsEmpty());
    CloseConsole();
  }

  /// Calls `action` on the loop after `wait`.
  void After(std::chrono::milliseconds wait, std::function<void()> action) {
    timers_.push_back(std::make_unique<boost::asio::steady_timer>(loop_, wait));
    timers_.back()->async_wait(
        [action = std::move(action)](const boost::system::error_code&) { action(); });
  }

  std::chrono::milliseconds timeout_{0};
  boost::asio::io_context loop_;
  LogWriter logs_{{}, [](const std::string& text) { ADD_FAILURE() << text; }};
  std::unique_ptr<Sweeper> sweeper_;
  Pipe pipe_;
  std::unique_ptr<Console> console_;
  std::unique_ptr<WorkerGroup> group_;
  std::vector<std::unique_ptr<boost::asio::steady_timer>> timers_;
  std::thread reader_;
  std::string output_;
  std::vector<WorkerEnding> endings_;
  std::function<void(const WorkerEnding&)> on_ended_;
  std::vector<ProcessInfo> leftover_;
  bool gone_ = false;
};

TEST_F(WorkerGroupTest, EndingsCarryCodeAndLastLines) {
  Start({Shell(0, "echo out; exit 0"), Shell(1, "echo first >&2; echo second >&2; exit 7")});
  Run();
  ASSERT_EQ(endings_.size(), 2);
  const WorkerEnding& failed = endings_[0].rank == 1 ? endings_[0] : endings_[1];
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_FALSE(failed.stopped_by_us);
  EXPECT_THAT(failed.last_lines, ElementsAre("first", "second"));
  EXPECT_GE(failed.end_unix_ns, failed.start_unix_ns);
  EXPECT_THAT(output_, AllOf(HasSubstr("[t0]:out\n"), HasSubstr("[t1]:second\n")));
}

TEST_F(WorkerGroupTest, WorkersLeadTheirOwnSessionAndInheritOnlyTheirStreams) {
  Start({Shell(0,
               "read -r line < /proc/self/stat; set -- $line; [ $1 = $6 ] && echo leader; ls "
               "/proc/self/fd | wc -l")});
  Run();
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("[t0]:leader\n"), HasSubstr("[t0]:4\n")));  // 0, 1, 2 and the one of ls
}

TEST_F(WorkerGroupTest, StartFailureIsAnEndingAndStopsNobodyByItself) {
  WorkerSpec missing = Shell(1, "");
  missing.executable = "/no/such/program";
  WorkerSpec forbidden = Shell(2, "");
  forbidden.executable = "/etc/passwd";
  Start({Shell(0, "exit 0"), missing, forbidden});
  Run();
  ASSERT_EQ(endings_.size(), 3);
  for (const WorkerEnding& ending : endings_) {
    if (ending.rank == 1) {
      EXPECT_EQ(ending.exit_code, 127);
      EXPECT_THAT(ending.message, HasSubstr("/no/such/program: No such file"));
    } else if (ending.rank == 2) {
      EXPECT_EQ(ending.exit_code, 126);
      EXPECT_THAT(ending.message, HasSubstr("Permission denied"));
    }
  }
}

TEST_F(WorkerGroupTest, StopForwardsTheSignal) {
  Start({Shell(0, "trap 'echo got int; exit 3' INT; echo ready; while :; do sleep 0.05; done"),
         Shell(1, "exec sleep 60")});
  After(300ms, [this] { group_->Stop(StopReason::kSignal, SIGINT, timeout_); });
  Run();
  EXPECT_THAT(output_, HasSubstr("got int"));
  for (const WorkerEnding& ending : endings_) {
    EXPECT_TRUE(ending.stopped_by_us);
    EXPECT_EQ(ending.job_exit_code(), ending.rank == 0 ? 3 : 128 + SIGINT);
  }
}

TEST_F(WorkerGroupTest, WhatIgnoresTheSignalIsKilledAfterTheGrace) {
  Start({Shell(0, "trap '' TERM; while :; do sleep 0.05; done")}, 300ms);
  After(200ms, [this] { group_->Stop(StopReason::kSignal, SIGTERM, timeout_); });
  Run();
  EXPECT_EQ(endings_.at(0).signal, SIGKILL);
  EXPECT_TRUE(endings_[0].stopped_by_us);
  EXPECT_THAT(output_, HasSubstr("rank 0 is killed: still running 0.3 s after SIGTERM"));
}

TEST_F(WorkerGroupTest, SecondOrderKillsAtOnce) {
  Start({Shell(0, "trap '' TERM; while :; do sleep 0.05; done")}, 60s);
  After(200ms, [this] { group_->Stop(StopReason::kSignal, SIGTERM, timeout_); });
  After(300ms, [this] { group_->StopNow(); });
  Run();
  EXPECT_EQ(endings_.at(0).signal, SIGKILL);
}

TEST_F(WorkerGroupTest, StoppedWorkersCanBeStopped) {
  Start({Shell(0, "kill -STOP $$; exit 0")});
  After(200ms, [this] { group_->Stop(StopReason::kSignal, SIGTERM, timeout_); });
  Run();
  EXPECT_EQ(endings_.at(0).signal, SIGTERM);
}

TEST_F(WorkerGroupTest, HelpersThatHideAreFoundAndKilled) {
  // Ignores everything, left its session, has another parent and a clean environment, and holds the
  // worker's pipe.
  Start({Shell(0,
               "trap '' TERM INT HUP; env -i setsid sh -c 'trap \"\" TERM; sleep 61 & sleep 61' & "
               "echo spawned; exit 0")});
  Run();
  EXPECT_EQ(endings_.at(0).exit_code, 0);
  EXPECT_THAT(output_, HasSubstr("spawned"));
  for (const ProcessInfo& process : ListProcesses()) {
    EXPECT_FALSE(process.parent == getpid() && !sweeper_->pids().contains(process.pid))
        << process.command;
  }
}

TEST_F(WorkerGroupTest, ForwardedSignalsNeverKillWorkersWithoutAHandler) {
  Start({Shell(0, "trap 'echo usr1; exit 0' USR1; while :; do sleep 0.02; done"),
         Shell(1, "sleep 1")});
  int forwarded = 0;
  After(300ms, [&] { forwarded = group_->ForwardHandled(SIGUSR1); });
  Run();
  EXPECT_EQ(forwarded, 1);
  EXPECT_THAT(output_, HasSubstr("usr1"));
  for (const WorkerEnding& ending : endings_) {
    EXPECT_TRUE(ending.succeeded()) << ending.rank;
  }
}

TEST_F(WorkerGroupTest, PartialLinesAppearWithoutTheirEnd) {
  Start({Shell(0, "printf question; sleep 1")});
  bool seen = false;
  After(800ms, [&] {
    console_->Flush(1s);
    seen = true;
  });
  Run();
  EXPECT_TRUE(seen);
  EXPECT_THAT(output_, HasSubstr("[t0]:question"));
}

TEST_F(WorkerGroupTest, StreamsGoToTheirFilesAndMatchingLinesToOneFilteredFile) {
  const std::string folder = ::testing::TempDir() + "worker_group_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::vector<WorkerSpec> specs;
  for (int rank = 0; rank < 2; ++rank) {
    specs.push_back(Shell(rank, "echo loss 1; echo other; printf 'error loss' >&2"));
    specs[rank].out.to_console = false;
    specs[rank].out.file = folder + "/out" + std::to_string(rank);
    specs[rank].out.filters = {"loss"};
    specs[rank].out.filtered_prefix = std::to_string(rank) + ":";
    specs[rank].out.filtered_file = folder + "/filtered";
    specs[rank].err.file = folder + "/err" + std::to_string(rank);
  }
  Start(std::move(specs));
  Run();
  ASSERT_TRUE(logs_.Flush(5s));
  EXPECT_EQ(ReadText(folder + "/out1"), "loss 1\nother\n");
  EXPECT_EQ(ReadText(folder + "/err0"), "error loss");
  EXPECT_THAT(ReadText(folder + "/filtered"),
              AnyOf("0:loss 1\n1:loss 1\n", "1:loss 1\n0:loss 1\n"));
  EXPECT_THAT(output_, AllOf(HasSubstr("[t1]:error loss"), Not(HasSubstr("loss 1"))));
  std::filesystem::remove_all(folder);
}

TEST_F(WorkerGroupTest, TerminalIsATerminalOnBothStreamsAndChangesNoBytes) {
  WorkerSpec spec = Shell(0, "test -t 1 && test -t 2 && echo terminal; printf 'a\\tb\\n' >&2");
  spec.terminal = true;
  Start({spec});
  Run();
  EXPECT_THAT(output_, AllOf(HasSubstr("[t0]:terminal\n"), HasSubstr("[t0]:a\tb\n")));
}

/// Its last words arrive while earlier ones are being handled, at every point of the loop's turns.
class LastWordsTest : public WorkerGroupTest,
                      public ::testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(LastWordsTest, WordsThatArriveWithTheEndAreNotLost) {
  const std::string folder = ::testing::TempDir() + "last_words_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const auto turn = [&](int handlers) {
    for (int i = 0; i < handlers; ++i) {
      loop_.poll_one();
    }
  };
  const auto wait_for = [&](const std::string& file) {
    while (!std::filesystem::exists(folder + "/" + file)) {
      std::this_thread::yield();
    }
  };
  const std::string script =
      "cd " + folder +
      "; echo first; touch did1; until [ -e go2 ]; do :; done; echo second; touch did2; "
      "until [ -e go3 ]; do :; done; echo third";
  Start({Shell(0, script)});
  wait_for("did1");
  turn(GetParam().first);
  std::ofstream(folder + "/go2").close();
  wait_for("did2");
  turn(GetParam().second);
  std::ofstream(folder + "/go3").close();
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
  Run();
  EXPECT_EQ(output_, "[t0]:first\n[t0]:second\n[t0]:third\n");
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Turns,
                         LastWordsTest,
                         ::testing::Values(std::pair(0, 1),
                                           std::pair(1, 0),
                                           std::pair(1, 1),
                                           std::pair(1, 2),
                                           std::pair(2, 1),
                                           std::pair(2, 2),
                                           std::pair(2, 3),
                                           std::pair(3, 1),
                                           std::pair(3, 2)));

TEST_F(WorkerGroupTest, LinesOfManyWorkersNeverMix) {
  std::vector<WorkerSpec> specs;
  for (int rank = 0; rank < 4; ++rank) {
    specs.push_back(Shell(rank,
                          "i=0; while [ $i -lt 2000 ]; do echo line-$i-of-" + std::to_string(rank) +
                              "-end; i=$((i+1)); done"));
  }
  Start(std::move(specs));
  Run();
  size_t lines = 0;
  for (size_t at = 0; at < output_.size(); ++lines) {
    const size_t end = output_.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = output_.substr(at, end - at);
    ASSERT_TRUE(line.starts_with("[t")) << line;
    ASSERT_TRUE(line.ends_with("-of-" + line.substr(2, 1) + "-end")) << line;
    at = end + 1;
  }
  EXPECT_EQ(lines, 8000);
}

}  // namespace
}  // namespace lr::launcher
