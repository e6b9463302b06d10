#include "launcher/app.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/foreign_environment.h"
#include "common/io/atomic_file.h"
#include "common/io/json.h"
#include "tests/support/fake_membership.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// Its own per process: what it marks is swept.
const std::string kNodeId = fmt::format("00aa11bb{:08x}ee55ff6677889900", getpid());

/// Records what reaches the native workers; pretends that `attached` of them listen.
class FakeWorkerService : public WorkerService {
 public:
  explicit FakeWorkerService(std::vector<std::string>& sent, int attached)
      : sent_(sent), attached_(attached) {}

  int Send(const ControlRequest& request) override {
    sent_.push_back(request.kind == ControlRequest::Kind::kCheckpoint ? "checkpoint"
                                                                      : "checkpoint and stop");
    return attached_;
  }

  std::set<int> AskStacks(const std::string& id, std::optional<int> /*rank*/) override {
    sent_.push_back("stacks " + id);
    return {};
  }

  void Forget() override { sent_.emplace_back("forget"); }

  const std::map<int, WorkerProgress>& progress() const override { return progress_; }

 private:
  std::vector<std::string>& sent_;
  int attached_;
  std::map<int, WorkerProgress> progress_;
};

/// Runs real /bin/sh workers under a fake rendezvous; the console goes to a file.
class AppTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { BecomeSubreaper(); }

  void SetUp() override {
    folder_ = ::testing::TempDir() + "app_test_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    output_ = fopen((folder_ + "/output").c_str(), "w+");
    plan_.local_size = 2;
    plan_.endpoint.standalone = true;
    plan_.run_id = "app-test";
    plan_.log_dir = folder_ + "/logs";
    plan_.logs.prefix_untouched = true;
    plan_.signals = {SIGTERM, SIGINT, SIGHUP};
    plan_.signals_text = "SIGTERM,SIGINT,SIGHUP";
    plan_.shutdown_timeout = 10s;
  }

  void TearDown() override {
    fclose(output_);
    std::filesystem::remove_all(folder_);
  }

  int Run(const std::string& script) {
    plan_.program.given = "script.sh";
    plan_.program.executable = "/bin/sh";
    plan_.program.argv = {"sh", "-c", script};
    auto sweeper = Sweeper::Start("LR_NODE_ID=" + kNodeId);
    EXPECT_THAT(sweeper, ::lr::testing::IsOk());
    int code = -1;
    {
      Console console(fileno(output_), fileno(output_));
      App app(loop_,
              console,
              *sweeper,
              MakeDoors(),
              plan_,
              {.node_id = kNodeId,
               .host_name = "host",
               .build = "1",
               .foreign_digest = "none",
               .environment = environment_});
      code = app.Run();
      console.Flush(5s);
    }
    ReadOutput();
    return code;
  }

  Doors MakeDoors() {
    return {
        .join = [this](boost::asio::io_context& loop,
                       NodeIdentity identity,
                       RendezvousEndpoint endpoint,
                       Membership::Events events) -> Result<std::unique_ptr<Membership>> {
          if (!join_status_.ok()) {
            return join_status_;
          }
          return std::unique_ptr<Membership>(std::make_unique<FakeMembership>(
              loop, std::move(identity), endpoint, std::move(events), script_, log_));
        },
        .serve_workers = [this](boost::asio::io_context&,
                                const std::string& path,
                                WorkerService::Events) -> Result<std::unique_ptr<WorkerService>> {
          socket_path_ = path;
          return std::unique_ptr<WorkerService>(
              std::make_unique<FakeWorkerService>(sent_, attached_));
        }};
  }

  void After(std::chrono::milliseconds wait, std::function<void()> action) {
    timers_.push_back(std::make_unique<boost::asio::steady_timer>(loop_, wait));
    timers_.back()->async_wait(
        [action = std::move(action)](const boost::system::error_code&) { action(); });
  }

  /// Once every worker wrote its "ready" file.
  void WhenReady(std::function<void()> action) {
    After(10ms, [this, action = std::move(action)] {
      bool ready = true;
      for (int rank = 0; rank < plan_.local_size; ++rank) {
        ready = ready && std::filesystem::exists(folder_ + "/ready" + std::to_string(rank));
      }
      if (ready) {
        action();
      } else {
        WhenReady(action);
      }
    });
  }

  std::string Ready() const { return "touch " + folder_ + "/ready$LOCAL_RANK; "; }

  void ReadOutput() {
    fseek(output_, 0, SEEK_SET);
    std::array<char, 65536> buffer{};
    const size_t got = fread(buffer.data(), 1, buffer.size(), output_);
    text_.assign(buffer.data(), got);
  }

  boost::asio::io_context loop_;
  LaunchPlan plan_;
  Variables environment_ = ProcessEnvironmentSnapshot();
  FakeMembership::Script script_;
  Status join_status_;
  MembershipLog log_;
  std::vector<std::string> sent_;
  int attached_ = 1;
  std::string socket_path_;
  std::string folder_;
  FILE* output_ = nullptr;
  std::string text_;
  std::vector<std::unique_ptr<boost::asio::steady_timer>> timers_;
};

TEST_F(AppTest, WorkersSeeTheirRanksAndEndpoint) {
  EXPECT_EQ(Run("echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT in $LR_ATTEMPT_DIR"),
            0);
  EXPECT_EQ(log_.calls.back(), "stopped");
  EXPECT_THAT(text_,
              AllOf(HasSubstr("[default0]:rank 0 of 2 at 127.0.0.1:29555 in " + folder_),
                    HasSubstr("[default1]:rank 1 of 2")));
  EXPECT_EQ(log_.identity.program_name, "script.sh");
}

TEST_F(AppTest, SingleWorkersBytesPassUnchanged) {
  plan_.local_size = 1;
  plan_.logs.prefix_untouched = false;
  EXPECT_EQ(Run("printf 'a\\rb'; printf '\\377\\n'"), 0);
  EXPECT_EQ(text_, "a\rb\377\n");
}

TEST_F(AppTest, FailureStopsTheOthersAndKeepsTheCode) {
  EXPECT_EQ(Run("if [ $RANK = 1 ]; then echo 'ValueError: bad' >&2; exit 7; fi; sleep 60"), 7);
  EXPECT_THAT(text_,
              AllOf(HasSubstr("rank 1 (local rank 1, pid"),
                    HasSubstr("ended with exit code 7; stopping the others"),
                    HasSubstr("script.sh FAILED"),
                    HasSubstr("Most likely cause: rank 1"),
                    HasSubstr("ValueError: bad")));
}

TEST_F(AppTest, EveryAttemptHasItsOwnDirectoryAndCount) {
  script_.restarts = 2;
  // Nobody fails before both have spoken: the first failure stops the other.
  EXPECT_EQ(Run("echo attempt $TORCHELASTIC_RESTART_COUNT epoch $LR_EPOCH in $LR_ATTEMPT_DIR; "
                "said=" +
                folder_ +
                "/said.$LR_EPOCH; touch $said.$RANK; "
                "until [ -e $said.0 ] && [ -e $said.1 ]; do sleep 0.01; done; "
                "[ $LR_EPOCH = 3 ] || exit 7; exit 0"),
            0);
  const std::string logs = folder_ + "/logs/app-test_00aa11bb";
  EXPECT_THAT(text_,
              AllOf(HasSubstr("[default0]:attempt 0 epoch 1 in " + logs + "/attempt_0"),
                    HasSubstr("[default1]:attempt 2 epoch 3 in " + logs + "/attempt_2"),
                    HasSubstr("script.sh FAILED"),
                    HasSubstr("next     : restart 2 in 0.0 s")));
  EXPECT_TRUE(std::filesystem::exists(logs + "/attempt_1/1"));
  const auto record = ReadJsonFile(logs + "/run.json");
  ASSERT_THAT(record, ::lr::testing::IsOk());
  EXPECT_EQ(record->at("restarts"), 2);
  EXPECT_EQ(record->at("state"), "succeeded");
}

TEST_F(AppTest, StacksOfWorkersThatDoNotSpeakAreToldByTheKernel) {
  WhenReady([this] {
    log_.events.request({ControlRequest::Kind::kStacks, "all"});
    log_.events.request({.kind = ControlRequest::Kind::kStacks, .id = "one", .rank = 1});
    After(500ms, [this] { std::ofstream(folder_ + "/go"); });
  });
  EXPECT_EQ(Run(Ready() + "until [ -e " + folder_ + "/go ]; do sleep 0.02; done"), 0);
  ASSERT_EQ(log_.stacks.size(), 3U);
  EXPECT_EQ(std::ranges::count(log_.calls, "last stacks all"), 1);
  EXPECT_EQ(std::ranges::count(log_.calls, "last stacks one"), 1);
  EXPECT_THAT(log_.stacks[0].text,
              AllOf(HasSubstr("rank 0 (local rank 0, pid "),
                    HasSubstr("no native stacks: the worker does not speak with its launcher"),
                    HasSubstr("by the kernel: 1 threads"),
                    HasSubstr("  sh ")));
  const std::string folder = folder_ + "/logs/app-test_00aa11bb/stacks/one";
  EXPECT_TRUE(std::filesystem::exists(folder + "/rank_1.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/rank_0.txt"));
}

TEST_F(AppTest, AHangIsSaidWithTheMainStackOfTheAbsentRankAndOnceMoreAtTheEnd) {
  WhenReady([this] {
    log_.events.watched({.kind = WatchReport::Kind::kHang,
                         .id = "hang-1-1",
                         .text = "hang: rank 1 is absent",
                         .ranks = {1},
                         .stacks = {{0, "rank 0\nthread a\n  #0 Waits\n"},
                                    {1, "rank 1\nthread a\n  #0 Loops\nthread b\n  #0 Idles\n"}}});
    log_.events.stop(
        {.reason = StopReason::kHang, .text = "hang: rank 1 is absent", .signal = SIGTERM});
  });
  script_.outcome = RunOutcome{.exit_code = 1, .reason = "hang: rank 1 is absent"};
  EXPECT_EQ(Run(Ready() + "sleep 60"), 1);
  const auto count = [this](const std::string& words) {
    int found = 0;
    for (size_t at = 0; (at = text_.find(words, at)) != std::string::npos; ++at) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("#0 Loops"), 2);
  EXPECT_EQ(count("#0 Waits"), 0);
  EXPECT_EQ(count("#0 Idles"), 0);
  EXPECT_THAT(text_,
              HasSubstr("all stacks: " + folder_ + "/logs/app-test_00aa11bb/stacks/hang-1-1/"));
  const auto record = ReadJsonFile(folder_ + "/logs/app-test_00aa11bb/run.json");
  ASSERT_THAT(record, ::lr::testing::IsOk());
  EXPECT_EQ(record->at("hang").at("ranks"), Json::array({1}));
  EXPECT_EQ(record->at("stacks").at(0).at("id"), "hang-1-1");
}

TEST_F(AppTest, AReportWithoutStacksListsNone) {
  WhenReady([this] {
    log_.events.watched(
        {.kind = WatchReport::Kind::kStragglers, .id = "", .text = "rank 1 is slow", .ranks = {1}});
    std::ofstream(folder_ + "/go");
  });
  EXPECT_EQ(Run(Ready() + "until [ -e " + folder_ + "/go ]; do sleep 0.02; done"), 0);
  const auto record = ReadJsonFile(folder_ + "/logs/app-test_00aa11bb/run.json");
  ASSERT_THAT(record, ::lr::testing::IsOk());
  EXPECT_EQ(record->at("stragglers").at("text"), "rank 1 is slow");
  EXPECT_FALSE(record->contains("stacks"));
}

TEST_F(AppTest, NativeWorkersOfAnEarlierAttemptAreForgotten) {
  script_.restarts = 1;
  plan_.program.native = true;
  EXPECT_EQ(Run("[ $LR_EPOCH = 2 ]"), 0);
  EXPECT_THAT(sent_, ElementsAre("forget"));
}

TEST_F(AppTest, SecondSignalWhileAFailureStopsForbidsTheRestart) {
  script_.restarts = 1;
  WhenReady([this] {
    std::ofstream(folder_ + "/go");
    After(300ms, [] { raise(SIGINT); });
  });
  EXPECT_EQ(Run("trap '' TERM; " + Ready() + "while ! [ -e " + folder_ +
                "/go ]; do sleep 0.02; done; [ $RANK = 0 ] && exit 7; sleep 60"),
            7);
  EXPECT_THAT(log_.calls, ::testing::Contains("stop SIGINT on host"));
}

TEST_F(AppTest, ErrorFileOfTheWorkerIsReportedAndPassedOn) {
  environment_["TORCHELASTIC_ERROR_FILE"] = folder_ + "/outer.json";
  EXPECT_EQ(Run("[ $RANK = 0 ] || exec sleep 60; echo '{\"message\": \"what happened\"}' > "
                "$TORCHELASTIC_ERROR_FILE; exit 3"),
            3);
  EXPECT_THAT(text_, HasSubstr("what happened"));
  const auto outer = ReadJsonFile(folder_ + "/outer.json");
  ASSERT_THAT(outer, ::lr::testing::IsOk());
  EXPECT_THAT(outer->at("message").at("message").get<std::string>(), HasSubstr("what happened"));
  EXPECT_EQ(outer->at("message").at("errorCode"), 3);
}

TEST_F(AppTest, CodeIsFoldedOnRequest) {
  plan_.fold_exit_code = true;
  EXPECT_EQ(Run("exit 7"), 1);
}

TEST_F(AppTest, SignalStopsTheRunWithoutAFailureBlock) {
  WhenReady([] { raise(SIGTERM); });
  EXPECT_EQ(Run("trap 'echo saved; exit 143' TERM; " + Ready() + "while :; do sleep 0.02; done"),
            143);
  EXPECT_THAT(text_,
              AllOf(HasSubstr("[default0]:saved"),
                    HasSubstr("[default1]:saved"),
                    HasSubstr("SIGTERM was sent to lr-launch"),
                    Not(HasSubstr("FAILED"))));
  EXPECT_THAT(log_.calls, ::testing::Contains("stop SIGTERM on host"));
}

TEST_F(AppTest, SecondSignalKills) {
  WhenReady([this] {
    raise(SIGINT);
    After(100ms, [] { raise(SIGINT); });
  });
  EXPECT_EQ(Run("trap '' INT; " + Ready() + "while :; do sleep 0.02; done"), 130);
  EXPECT_THAT(text_, HasSubstr("no more grace"));
  EXPECT_EQ(log_.endings.at(0).signal, SIGKILL);
}

TEST_F(AppTest, SignalBeforeWorkersExistLeavesTheJoin) {
  script_.forms = false;
  After(20ms, [] { raise(SIGINT); });
  EXPECT_EQ(Run("echo never"), 130);
  EXPECT_THAT(log_.calls, ElementsAre("leave SIGINT before the workers were started"));
  EXPECT_THAT(text_, Not(HasSubstr("never")));
}

TEST_F(AppTest, SignalIgnoredAtTheStartStaysIgnored) {
  const auto before = signal(SIGHUP, SIG_IGN);
  WhenReady([] { raise(SIGHUP); });
  EXPECT_EQ(Run(Ready() + "sleep 0.3"), 0);
  signal(SIGHUP, before);
}

TEST_F(AppTest, RefusalEndsWithItsCode) {
  script_.forms = false;
  After(20ms, [this] { log_.events.refused(76, "plan mismatch in --role"); });
  EXPECT_EQ(Run("echo never"), 76);
  EXPECT_THAT(text_, HasSubstr("lr-launch: plan mismatch in --role"));
}

TEST_F(AppTest, JoinThatCannotStartIsAnError) {
  join_status_ = AlreadyExists("port 29500 is in use");
  EXPECT_EQ(Run("echo never"), 76);
  EXPECT_THAT(text_, HasSubstr("port 29500 is in use"));
}

TEST_F(AppTest, StopOfTheHostStopsTheWorkers) {
  script_.other_nodes = 1;
  WhenReady([this] {
    log_.events.stop(
        {.reason = StopReason::kWorkerFailed, .text = "rank 2 ended", .signal = SIGTERM});
  });
  Run(Ready() + "exec sleep 60");
  EXPECT_THAT(text_, HasSubstr("stopping: rank 2 ended"));
  for (const WorkerEnding& ending : log_.endings) {
    EXPECT_TRUE(ending.stopped_by_us);
  }
}

TEST_F(AppTest, RunThatClosesUnderWorkingWorkersTakesThemAlong) {
  RunOutcome lost;
  lost.exit_code = 75;
  lost.reason = "the host was lost";
  WhenReady([this, lost] { log_.events.closed(lost); });
  EXPECT_EQ(Run(Ready() + "exec sleep 60"), 75);
  EXPECT_EQ(log_.endings.size(), 2U);
}

TEST_F(AppTest, UserSignalReachesNativeWorkersThroughTheirStream) {
  plan_.program.native = true;
  WhenReady([this] {
    raise(SIGUSR1);
    After(50ms, [] { raise(SIGUSR2); });
  });
  EXPECT_EQ(Run(Ready() + "sleep 0.4; [ -n \"$LR_CONTROL_SOCKET\" ] || exit 9"), 0);
  EXPECT_THAT(sent_, ElementsAre("checkpoint", "checkpoint and stop"));
  EXPECT_THAT(socket_path_, HasSubstr("/w-" + kNodeId.substr(0, 16) + ".sock"));
}

TEST_F(AppTest, UserSignalReachesWorkersThatAreNotAttachedAsASignal) {
  plan_.program.native = true;
  attached_ = 0;
  WhenReady([] { raise(SIGUSR1); });
  EXPECT_EQ(Run("trap 'echo got it; exit 0' USR1; " + Ready() + "while :; do sleep 0.02; done"), 0);
  EXPECT_THAT(text_, HasSubstr("[default1]:got it"));
}

TEST_F(AppTest, UserSignalNeverKillsAWorkerWithoutAHandler) {
  WhenReady([] { raise(SIGUSR1); });
  EXPECT_EQ(Run(Ready() + "exec sleep 0.3"), 0);
  EXPECT_THAT(text_, HasSubstr("SIGUSR1 is kept from the workers"));
}

TEST_F(AppTest, RecordTellsTheRunFromStartToEnd) {
  plan_.local_size = 1;
  EXPECT_EQ(Run("exit 7"), 7);
  const std::string record = folder_ + "/logs/app-test_00aa11bb";
  const auto run = ReadJsonFile(record + "/run.json");
  ASSERT_THAT(run, ::lr::testing::IsOk());
  EXPECT_EQ(run->at("run_id"), "app-test");
  EXPECT_EQ(run->at("state"), "failed");
  EXPECT_EQ(run->at("exit_code"), 7);
  EXPECT_EQ(run->at("failures").at(0).at("exit_code"), 7);
  EXPECT_EQ(run->at("logs").size(), 0);
  const auto events = ReadFile(record + "/events.jsonl");
  ASSERT_THAT(events, ::lr::testing::IsOk());
  EXPECT_THAT(*events,
              AllOf(HasSubstr("worker_ended"), HasSubstr("stopping"), HasSubstr("closed")));
}

TEST_F(AppTest, RecordNamesTheLogFolderOfEveryAttempt) {
  plan_.local_size = 1;
  plan_.logs.redirects.others = 3;
  EXPECT_EQ(Run("exit 0"), 0);
  const auto run = ReadJsonFile(folder_ + "/logs/app-test_00aa11bb/run.json");
  ASSERT_THAT(run, ::lr::testing::IsOk());
  ASSERT_EQ(run->at("logs").size(), 1);
  EXPECT_EQ(run->at("logs").at(0).at("directory"), folder_ + "/logs/app-test_00aa11bb/attempt_0");
}

TEST_F(AppTest, RunWithoutAPlaceForItsRecordGoesOn) {
  plan_.log_dir = "/proc/nowhere";
  plan_.logs.redirects.others = 3;
  EXPECT_EQ(Run("echo shown all the same"), 0);
  EXPECT_THAT(text_,
              AllOf(HasSubstr("this run leaves no record"),
                    HasSubstr("leaves neither log nor error files"),
                    HasSubstr("shown all the same")));
}

}  // namespace
}  // namespace lr::launcher
