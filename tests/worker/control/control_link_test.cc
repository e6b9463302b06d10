// Both ends of worker.proto: a worker's link against the launcher's service over a real unix
// socket.
#include <filesystem>
#include <future>
#include <thread>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "launcher/native/worker_service.h"
#include "tests/support/status_matchers.h"
#include "worker/control/control.h"

namespace lr {
namespace {

using launcher::ControlRequest;
using launcher::WorkerProgress;
using launcher::WorkerService;
using worker::ControlInbox;
using worker::ControlLink;
using worker::ControlWord;

/// A launcher's event loop with the worker service on it.
class Launcher {
 public:
  explicit Launcher(std::string socket) : guard_(boost::asio::make_work_guard(loop_)) {
    thread_ = std::thread([this] { loop_.run(); });
    OnLoop([&] {
      auto service = WorkerService::Start(
          loop_,
          socket,
          {.progress = [this](const WorkerProgress& now) { Note(now); },
           .saved =
               [this](const launcher::SaveNews& news) {
                 const std::lock_guard lock(mutex_);
                 saves_.push_back(news);
               },
           .stacks =
               [this](int rank, const std::string& id, const std::string& text) {
                 const std::lock_guard lock(mutex_);
                 stacks_ += fmt::format("{} {}: {}", rank, id, text);
                 changed_.notify_all();
               }});
      ASSERT_THAT(service, testing::IsOk());
      service_ = std::move(service).value();
    });
  }

  ~Launcher() {
    OnLoop([&] { service_.reset(); });
    guard_.reset();
    thread_.join();
  }

  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(loop_, [&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }

  WorkerService& service() { return *service_; }

  std::vector<launcher::SaveNews> saves() {
    const std::lock_guard lock(mutex_);
    return saves_;
  }

  /// The first progress that fulfils `wanted`; fails the test when none comes in 20 s.
  WorkerProgress Wait(const std::function<bool(const WorkerProgress&)>& wanted) {
    std::unique_lock lock(mutex_);
    const bool seen = changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      for (const WorkerProgress& one : history_) {
        if (wanted(one)) {
          found_ = one;
          return true;
        }
      }
      return false;
    });
    EXPECT_TRUE(seen);
    return found_;
  }

  std::string WaitForStacks() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !stacks_.empty(); }));
    return stacks_;
  }

 private:
  void Note(const WorkerProgress& now) {
    const std::lock_guard lock(mutex_);
    history_.push_back(now);
    changed_.notify_all();
  }

  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::thread thread_;
  std::unique_ptr<WorkerService> service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WorkerProgress> history_;
  std::vector<launcher::SaveNews> saves_;
  WorkerProgress found_;
  std::string stacks_;
};

class ControlLinkTest : public ::testing::Test {
 protected:
  ControlLinkTest() {
    std::string name = (std::filesystem::temp_directory_path() / "lr-ctl-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }

  ~ControlLinkTest() override { std::filesystem::remove_all(folder_); }

  std::string socket() const { return folder_ + "/control.sock"; }

  static void WaitForWord(const ControlInbox& inbox, ControlWord word) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (inbox.pending() != word && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    EXPECT_EQ(inbox.pending(), word);
  }

  std::string folder_;
};

TEST_F(ControlLinkTest, HelloStepsCheckpointsAndGoodbyeArrive) {
  Launcher launcher(socket());
  ControlInbox inbox;
  const auto link = ControlLink::Start(socket(), 3, "/runs/a", inbox);
  link->SetPhase(worker::Phase::kForward);
  link->ReportStep({.step = 7, .total_steps = 10, .loss = 0.5, .samples_per_s = 12});
  const WorkerProgress step = launcher.Wait([](const auto& now) { return now.step == 7; });
  EXPECT_EQ(step.rank, 3);
  EXPECT_EQ(step.pid, getpid());
  EXPECT_EQ(step.output_dir, "/runs/a");
  EXPECT_EQ(step.phase, launcher::WorkerPhase::kIdle);  // the step is over
  EXPECT_EQ(step.steps_done, 1);
  EXPECT_EQ(step.ticks, 2);
  EXPECT_EQ(step.total_steps, 10);
  link->ReportSaveBegun(7, 3);
  link->ReportCheckpoint({.step = 7,
                          .directory = "/runs/a/checkpoints/000007",
                          .request = 3,
                          .bytes = 1000,
                          .write_s = 1.5,
                          .publish_s = 0.25});
  EXPECT_EQ(launcher.Wait([](const auto& now) { return now.checkpoint_step == 7; }).checkpoint_dir,
            "/runs/a/checkpoints/000007");
  link->ReportCheckpoint({.step = 8, .directory = "", .outcome = ResourceExhausted("disk full")});
  EXPECT_EQ(
      launcher.Wait([](const auto& now) { return now.checkpoint_reports == 2; }).checkpoint_error,
      "disk full");
  link->Goodbye("done");
  const WorkerProgress end = launcher.Wait([](const auto& now) { return !now.goodbye.empty(); });
  EXPECT_EQ(end.goodbye, "done");
  EXPECT_GT(end.estimates.save_s, 0.0);
  const std::vector<launcher::SaveNews> saves = launcher.saves();
  ASSERT_EQ(saves.size(), 3U);
  EXPECT_TRUE(saves[0].running);
  EXPECT_EQ(saves[0].request, 3);
  EXPECT_EQ(saves[1].rank, 3);
  EXPECT_EQ(saves[1].bytes, 1000);
  EXPECT_EQ(saves[1].write_s, 1.5);
  EXPECT_EQ(saves[2].error, "disk full");
}

TEST_F(ControlLinkTest, ARequestWaitsForWorkersThatAttachLaterUntilASaveAnswersIt) {
  Launcher launcher(socket());
  launcher.OnLoop([&] {
    EXPECT_EQ(launcher.service().Send({.kind = ControlRequest::Kind::kCheckpoint, .number = 4}), 0);
  });
  ControlInbox first;
  const auto link_0 = ControlLink::Start(socket(), 0, "", first);
  WaitForWord(first, ControlWord::kCheckpoint);
  EXPECT_EQ(first.request().number, 4);
  link_0->ReportCheckpoint({.step = 2, .directory = "/d", .request = 4});
  launcher.Wait([](const auto& now) { return now.checkpoint_step == 2; });
  ControlInbox second;
  const auto link_1 = ControlLink::Start(socket(), 1, "", second);
  launcher.Wait([](const auto& now) { return now.rank == 1; });
  launcher.OnLoop([&] { launcher.service().Send({.kind = ControlRequest::Kind::kStop}); });
  WaitForWord(second, ControlWord::kStop);
  EXPECT_EQ(second.request().number, 0) << "the answered request was not handed out again";
}

TEST_F(ControlLinkTest, PhaseTimesAndCollectivesArriveWhileTheStepThreadStandsStill) {
  Launcher launcher(socket());
  ControlInbox inbox;
  const auto link = ControlLink::Start(socket(), 0, "", inbox);
  std::atomic<int64_t> entered{41};
  link->ObserveCollectives([&] {
    return std::vector<worker::CollectivePosition>{
        {.group = "data", .entered = entered.load(), .operation = "all-reduce", .bytes = 4096}};
  });
  link->SetPhase(worker::Phase::kBackward);
  launcher.Wait([](const auto& now) {
    return now.phase == launcher::WorkerPhase::kBackward && !now.collectives.empty();
  });
  entered = 42;  // from here on only the link's thread speaks
  const WorkerProgress now = launcher.Wait([](const auto& one) {
    return one.in_phase.count() > 0 && one.ticks == 1 && !one.collectives.empty() &&
           one.collectives[0].entered == 42;
  });
  EXPECT_EQ(now.collectives[0].operation, "all-reduce");
  EXPECT_EQ(now.collectives[0].bytes, 4096);
  EXPECT_EQ(now.phase_total.size(), static_cast<size_t>(launcher::kWorkerPhases));
}

TEST_F(ControlLinkTest, StacksAreAnsweredWhateverTheStepThreadDoes) {
  Launcher launcher(socket());
  ControlInbox inbox;
  const auto link_0 = ControlLink::Start(socket(), 0, "", inbox);
  const auto link_1 = ControlLink::Start(socket(), 1, "", inbox);
  launcher.Wait([](const auto& now) { return now.rank == 0; });
  launcher.Wait([](const auto& now) { return now.rank == 1; });
  launcher.OnLoop([&] {
    EXPECT_EQ(launcher.service().AskStacks("other", 7), std::set<int>());
    EXPECT_EQ(launcher.service().AskStacks("mine", 1), std::set<int>{1});
  });
  const std::string stacks = launcher.WaitForStacks();
  EXPECT_EQ(stacks.substr(0, 16), "1 mine: thread c");  // control_link_te…, the main thread
  launcher.OnLoop([&] { EXPECT_EQ(launcher.service().AskStacks("all", std::nullopt).size(), 2U); });
}

TEST_F(ControlLinkTest, AWordReachesEveryAttachedWorker) {
  Launcher launcher(socket());
  ControlInbox first;
  ControlInbox second;
  const auto link_0 = ControlLink::Start(socket(), 0, "", first);
  const auto link_1 = ControlLink::Start(socket(), 1, "", second);
  launcher.Wait([](const auto& now) { return now.rank == 0; });
  launcher.Wait([](const auto& now) { return now.rank == 1; });
  launcher.OnLoop([&] {
    EXPECT_EQ(launcher.service().Send({ControlRequest::Kind::kCheckpoint, "request-1"}), 2);
  });
  WaitForWord(first, ControlWord::kCheckpoint);
  WaitForWord(second, ControlWord::kCheckpoint);
}

TEST_F(ControlLinkTest, ALostLauncherIsFoundAgainAndNothingIsBlockedMeanwhile) {
  ControlInbox inbox;
  auto launcher = std::make_unique<Launcher>(socket());
  const auto link = ControlLink::Start(socket(), 0, "", inbox);
  launcher->Wait([](const auto& now) { return now.rank == 0; });
  launcher.reset();
  for (int64_t step = 1; step < 2000; ++step) {
    link->ReportStep({.step = step, .total_steps = 2000});
    link->SetPhase(worker::Phase::kBackward);
  }
  link->ReportFailure("said while nobody listened");
  launcher = std::make_unique<Launcher>(socket());
  EXPECT_EQ(launcher->Wait([](const auto& now) { return !now.failure.empty(); }).failure,
            "said while nobody listened");
  launcher->Wait([](const auto& now) { return now.step == 1999; });
}

TEST_F(ControlLinkTest, WordsOfAnyLengthAndEncodingArrive) {
  Launcher launcher(socket());
  ControlInbox inbox;
  const auto link = ControlLink::Start(socket(), 0, "/runs/\xff", inbox);
  link->ReportFailure("\xfe" + std::string(1 << 20, 'x'));
  link->Goodbye("failed");
  const WorkerProgress last = launcher.Wait([](const auto& now) { return !now.goodbye.empty(); });
  EXPECT_EQ(last.output_dir, "/runs/\xff");
  EXPECT_EQ(last.failure.substr(0, 2), "\xfex");
}

TEST_F(ControlLinkTest, ALauncherThatEndsWhileWorkersAttachDoesNotHang) {
  for (int round = 0; round < 20; ++round) {
    auto launcher = std::make_unique<Launcher>(socket());
    ControlInbox inbox;
    std::vector<std::unique_ptr<ControlLink>> links;
    for (int rank = 0; rank < 4; ++rank) {
      links.push_back(ControlLink::Start(socket(), rank, "", inbox));
    }
    if (round % 2 == 0) {
      launcher->Wait([](const auto& now) { return now.rank == 0; });
    }
    launcher.reset();
  }
}

TEST_F(ControlLinkTest, WithoutASocketEverythingIsANoOp) {
  ControlInbox inbox;
  const auto link = ControlLink::Start("", 0, "", inbox);
  link->ReportStep({});
  link->Goodbye("done");
  EXPECT_EQ(inbox.pending(), ControlWord::kNone);
}

TEST_F(ControlLinkTest, ASocketNobodyServesDelaysTheGoodbyeByASecondAtMost) {
  ControlInbox inbox;
  const auto link = ControlLink::Start(socket(), 0, "", inbox);
  const auto start = std::chrono::steady_clock::now();
  link->Goodbye("done");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace lr
