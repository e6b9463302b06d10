// A node's connection to its host that breaks at any point and is made anew: nothing is lost,
// nothing comes twice, and the run does not see it (3.9, R-27).
#include <functional>
#include <string>

#include "launcher/rendezvous/live_socket.h"
#include "launcher/rendezvous/remote_link.h"
#include "launcher/rendezvous/rendezvous_server.h"
#include "tests/launcher/rendezvous/cut_proxy.h"
#include "tests/launcher/rendezvous/run_scene.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher::testing {
namespace {

using ::lr::testing::IsOk;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A pretended node: answers as a node does and keeps the order of what it was told.
class Node {
 public:
  Node(boost::asio::io_context& loop,
       int port,
       const std::string& name,
       int rank,
       int live_port,
       milliseconds resume_within = seconds(60)) {
    HostLink::Events events;
    events.message = [this](const HostMessage& message) {
      heard = true;
      std::visit([this](const auto& body) { On(body); }, message);
    };
    events.lost = [this](const std::string& why) { lost = why; };
    link = MakeRemoteLink(
        loop, "127.0.0.1", port, std::move(events), {.resume_within = resume_within});
    Hello hello{.identity = MakeNode(name, rank)};
    hello.live_port = live_port;
    link->Send(std::move(hello));
  }

  std::unique_ptr<HostLink> link;
  std::vector<std::string> told;  ///< kinds of messages, and the ids of requests
  std::string lost;
  bool heard = false;
  bool going = false;
  std::optional<RunOutcome> closed;

 private:
  void On(const Refused& refused) { told.push_back("refused: " + refused.text); }

  void On(const Waiting& /*waiting*/) {}  // how many there are depends on who is faster

  void On(const Watched& /*watched*/) {}

  void On(const Survey& survey) { link->Send(Surveyed{survey.epoch, {}}); }

  void On(const RequestUpdate& /*update*/) {}

  void On(const Reserve& reserve) {
    told.emplace_back("reserve");
    link->Send(Reserved{reserve.epoch, "127.0.0.1", 4000, ""});
  }

  void On(const Assign& assign) {
    told.emplace_back("assign");
    link->Send(Ack{assign.assignment.epoch, ""});
  }

  void On(const Go& /*go*/) {
    told.emplace_back("go");
    going = true;
  }

  void On(const Stop& stop) {
    told.emplace_back("stop");
    link->Send(Stopped{stop.epoch});
  }

  void On(const Control& control) { told.push_back(control.request.id); }

  void On(const BeatEcho& /*echo*/) { told.emplace_back("echo"); }

  void On(const Reforming& /*reforming*/) { told.emplace_back("reforming"); }

  void On(const Closed& end) {
    told.emplace_back("closed");
    closed = end.outcome;
  }
};

class ResumeTest : public ::testing::Test {
 protected:
  /// A host, a node 0 that is always reached, and node 1 behind the proxy.
  void Begin(RunTiming timing = {}, milliseconds resume_within = seconds(60)) {
    notes_.clear();
    host_ = std::make_unique<RunHost>(
        loop_,
        RunRules{.run_id = "run", .min_nodes = 2, .max_nodes = 2, .strict_ranks = true},
        timing,
        [this](const std::string& note) { notes_.push_back(note); });
    auto server = RendezvousServer::Listen(loop_, *host_, "127.0.0.1", 0);
    ASSERT_THAT(server, IsOk());
    server_ = std::move(server).value();
    proxy_ = std::make_unique<CutProxy>(loop_, server_->port());
    live_ = LiveSocket::Open(loop_);
    ASSERT_NE(live_, nullptr);
    near_ = std::make_unique<Node>(loop_, server_->port(), "near", 0, live_->port());
    far_ = std::make_unique<Node>(loop_, proxy_->port(), "far", 1, live_->port(), resume_within);
  }

  void End() {
    near_.reset();
    far_.reset();
    live_.reset();
    proxy_.reset();
    server_.reset();
    host_.reset();
  }

  void TearDown() override { End(); }

  bool Until(const std::function<bool()>& condition, seconds limit = seconds(20)) {
    const auto end = steady_clock::now() + limit;
    while (!condition() && steady_clock::now() < end) {
      loop_.restart();
      loop_.run_one_for(milliseconds(20));
    }
    return condition();
  }

  void Run(milliseconds span) {
    const auto end = steady_clock::now() + span;
    Until([&] { return steady_clock::now() >= end; });
  }

  bool UntilBothGo() {
    return Until([&] { return near_->going && far_->going; });
  }

  /// Requests both ways and endings, up to the outcome.
  void Talk() {
    ASSERT_TRUE(UntilBothGo()) << host_->machine().WaitingFor() << far_->lost;
    for (int i = 0; i < 3; ++i) {
      far_->link->Send(Beat{i});
      near_->link->Send(
          ControlAsk{{ControlRequest::Kind::kCheckpoint, "near" + std::to_string(i)}});
      far_->link->Send(ControlAsk{{ControlRequest::Kind::kCheckpoint, "far" + std::to_string(i)}});
    }
    ASSERT_TRUE(Until([&] { return std::ranges::count(far_->told, "far2") > 0; })) << far_->lost;
    ASSERT_TRUE(Until([&] { return std::ranges::count(far_->told, "near2") > 0; })) << far_->lost;
    for (int rank = 0; rank < 4; ++rank) {
      WorkerEnding ending;
      ending.rank = rank;
      (rank < 2 ? near_ : far_)->link->Send(Ended{1, ending});
    }
    near_->link->Send(Stopped{1});
    far_->link->Send(Stopped{1});
    ASSERT_TRUE(Until([&] { return near_->closed && far_->closed; })) << far_->lost;
    EXPECT_TRUE(far_->closed->succeeded) << far_->closed->reason;
    EXPECT_EQ(far_->closed->reason, near_->closed->reason);
  }

  /// What the far node was told, in the order that the host fixes: everything once.
  void ExpectEverythingOnce() {
    for (const char* once :
         {"assign", "go", "near0", "near1", "near2", "far0", "far1", "far2", "closed"}) {
      EXPECT_EQ(std::ranges::count(far_->told, once), 1) << once;
    }
    EXPECT_EQ(std::ranges::count(far_->told, "echo"), 3);
    EXPECT_EQ(far_->told.front(), "assign");
    EXPECT_EQ(far_->told.back(), "closed");
    const auto place = [&](const char* id) { return std::ranges::find(far_->told, id); };
    EXPECT_LT(place("far0"), place("far1"));
    EXPECT_LT(place("far1"), place("far2"));
    EXPECT_LT(place("near0"), place("near1"));
    EXPECT_LT(place("near1"), place("near2"));
  }

  boost::asio::io_context loop_;
  std::unique_ptr<RunHost> host_;
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<CutProxy> proxy_;
  std::unique_ptr<LiveSocket> live_;
  std::unique_ptr<Node> near_;
  std::unique_ptr<Node> far_;
  std::vector<std::string> notes_;
};

TEST_F(ResumeTest, WithoutACutEverythingIsToldOnce) {
  Begin();
  Talk();
  ExpectEverythingOnce();
}

/// Cut inside and between all messages of a run, from the first answer on: a step is smaller than
/// the smallest message.
TEST_F(ResumeTest, ACutAtAnyByteLosesNothingAndRepeatsNothing) {
  Begin();
  ASSERT_TRUE(Until([&] { return far_->heard; }));
  const int64_t first = proxy_->passed();
  Talk();
  const int64_t whole = proxy_->passed();
  End();
  int cuts = 0;
  for (int64_t at = first; at < whole; at += 23) {
    SCOPED_TRACE(fmt::format("cut after {} of {} bytes", at, whole));
    Begin();
    ASSERT_TRUE(Until([&] { return far_->heard; }));
    proxy_->CutAfter(std::max<int64_t>(1, at - proxy_->passed()));
    Talk();
    ExpectEverythingOnce();
    cuts += proxy_->cuts();
    End();
    if (HasFailure()) {
      return;
    }
  }
  fmt::print("{} bytes of a run, cut at {} places\n", whole, cuts);
  EXPECT_GT(cuts, 20);
}

TEST_F(ResumeTest, CutsAgainAndAgain) {
  Begin();
  ASSERT_TRUE(UntilBothGo());
  for (int i = 0; i < 20; ++i) {
    far_->link->Send(ControlAsk{{ControlRequest::Kind::kCheckpoint, "r" + std::to_string(i)}});
    proxy_->Cut();
    near_->link->Send(ControlAsk{{ControlRequest::Kind::kCheckpoint, "n" + std::to_string(i)}});
  }
  ASSERT_TRUE(Until([&] { return std::ranges::count(far_->told, "r19") == 1; })) << far_->lost;
  Talk();
  ExpectEverythingOnce();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(std::ranges::count(far_->told, "r" + std::to_string(i)), 1);
    EXPECT_EQ(std::ranges::count(far_->told, "n" + std::to_string(i)), 1);
  }
}

TEST_F(ResumeTest, ACutOfAFewSecondsIsInvisibleToTheRun) {
  Begin();
  ASSERT_TRUE(UntilBothGo());
  proxy_->Block(true);
  proxy_->Cut();
  near_->link->Send(ControlAsk{{ControlRequest::Kind::kCheckpoint, "meanwhile"}});
  far_->link->Send(ControlAsk{{ControlRequest::Kind::kCheckpoint, "from afar"}});
  Run(milliseconds(2500));
  EXPECT_EQ(host_->machine().state(), RunState::kRunning);
  EXPECT_THAT(far_->told, Not(Contains("meanwhile")));
  proxy_->Block(false);
  proxy_->Cut();  // also those that were let in and held
  ASSERT_TRUE(Until([&] {
    return std::ranges::count(far_->told, "meanwhile") == 1 &&
           std::ranges::count(near_->told, "from afar") == 1;
  })) << far_->lost;
  EXPECT_THAT(notes_,
              Contains(AllOf(HasSubstr("node 1 (far)"), HasSubstr("connected again after"))));
  Talk();
  ExpectEverythingOnce();
}

TEST_F(ResumeTest, ALauncherThatIsGoneIsLostAtOnceByItsLiveSocket) {
  Begin();
  ASSERT_TRUE(UntilBothGo());
  Run(milliseconds(100));
  live_.reset();
  proxy_->Block(true);
  const auto start = steady_clock::now();
  proxy_->Cut();
  ASSERT_TRUE(Until([&] { return std::ranges::count(near_->told, "stop") == 1; }));
  EXPECT_LT(steady_clock::now() - start, seconds(1));
  EXPECT_THAT(notes_,
              Contains(AllOf(HasSubstr("node 1 (far)"), HasSubstr("its launcher is gone"))));
}

TEST_F(ResumeTest, AHostThatIsGoneIsLostAtOnce) {
  Begin();
  ASSERT_TRUE(UntilBothGo());
  const auto start = steady_clock::now();
  proxy_.reset();  // resets the connection, and refuses the next one
  ASSERT_TRUE(Until([&] { return !far_->lost.empty(); }));
  EXPECT_LT(steady_clock::now() - start, seconds(1));
  EXPECT_THAT(far_->lost, HasSubstr("nobody serves there any more"));
}

TEST_F(ResumeTest, ANodeThatStaysAwayIsLostAndToldSoWhenItComesBack) {
  RunTiming timing;
  timing.suspect = milliseconds(300);
  timing.lost = milliseconds(900);
  Begin(timing);
  ASSERT_TRUE(UntilBothGo());
  proxy_->Block(true);
  proxy_->Cut();
  for (int beat = 0; beat < 30 && std::ranges::count(near_->told, "stop") == 0; ++beat) {
    near_->link->Send(Beat{1});
    Run(milliseconds(100));
  }
  EXPECT_EQ(std::ranges::count(near_->told, "stop"), 1);
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("node 1 (far)"), HasSubstr("silent for"))));
  proxy_->Block(false);
  proxy_->Cut();
  ASSERT_TRUE(Until([&] { return !far_->lost.empty(); }));
  EXPECT_THAT(far_->told, Not(Contains("stop")));
}

TEST_F(ResumeTest, ANodeGivesUpAfterItsOwnLimit) {
  Begin({}, milliseconds(800));
  ASSERT_TRUE(UntilBothGo());
  proxy_->Block(true);
  proxy_->Cut();
  ASSERT_TRUE(Until([&] { return !far_->lost.empty(); }));
  EXPECT_THAT(far_->lost, HasSubstr("did not come back within 0.8 s"));
}

TEST_F(ResumeTest, TheOutcomeReachesANodeThatWasAwayAtTheEnd) {
  Begin();
  ASSERT_TRUE(UntilBothGo());
  for (int rank = 0; rank < 4; ++rank) {
    WorkerEnding ending;
    ending.rank = rank;
    (rank < 2 ? near_ : far_)->link->Send(Ended{1, ending});
  }
  far_->link->Send(Stopped{1});
  Run(milliseconds(200));
  proxy_->Cut();
  near_->link->Send(Stopped{1});
  ASSERT_TRUE(Until([&] { return near_->closed && far_->closed; })) << far_->lost;
  EXPECT_TRUE(far_->closed->succeeded);
}

}  // namespace
}  // namespace lr::launcher::testing
