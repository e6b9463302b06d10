// The host on a real TCP port and nodes that connect to it, in one process: what holds when streams
// begin, break, flood and end. Prints how long a rendezvous of many nodes takes.
#include <chrono>
#include <map>
#include <thread>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include "proto/lr/v1/rendezvous.grpc.pb.h"

#include "common/rpc/transport.h"
#include "launcher/rendezvous/remote_link.h"
#include "launcher/rendezvous/rendezvous_server.h"
#include "tests/launcher/rendezvous/run_scene.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher::testing {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};

double MillisecondsSince(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

/// A pretended node: answers as a node does and remembers what it was told.
class Node {
 public:
  Node(boost::asio::io_context& loop, int port, NodeIdentity identity) {
    link_ = MakeRemoteLink(loop,
                           "127.0.0.1",
                           port,
                           {.message = [this](const HostMessage& message) { Got(message); },
                            .lost = [this](const std::string& why) { lost = why; },
                            .searching = {}});
    link_->Send(Hello{std::move(identity), kProtocolVersion, "", false});
  }

  void Send(NodeMessage message) { link_->Send(std::move(message)); }

  void Drop() { link_.reset(); }

  bool accepts = true;
  bool leaves_when_refused = false;
  std::optional<Assignment> assigned;
  std::optional<int64_t> go;
  std::optional<StopOrder> stop;
  std::optional<Refused> refused;
  std::optional<RunOutcome> closed;
  std::optional<Waiting> waiting;
  std::optional<Control> control;
  int echoes = 0;
  std::string lost;
  steady_clock::time_point stop_seen;

 private:
  void Got(const HostMessage& message) {
    std::visit([this](const auto& body) { On(body); }, message);
  }

  void On(const Refused& message) {
    refused = message;
    if (leaves_when_refused) {
      link_.reset();  // from inside its own event
    }
  }

  void On(const Waiting& message) { waiting = message; }

  void On(const Reserve& message) { link_->Send(Reserved{message.epoch, "127.0.0.1", 4000, ""}); }

  void On(const Assign& message) {
    assigned = message.assignment;
    if (accepts) {
      link_->Send(Ack{message.assignment.epoch, ""});
    }
  }

  void On(const Survey& message) { link_->Send(Surveyed{message.epoch, {}}); }

  void On(const RequestUpdate& /*message*/) {}

  void On(const Go& message) { go = message.epoch; }

  void On(const Stop& message) {
    stop = message.order;
    stop_seen = steady_clock::now();
    link_->Send(Stopped{message.epoch});
  }

  void On(const Control& message) { control = message; }

  void On(const BeatEcho& /*message*/) { ++echoes; }

  void On(const Reforming& /*reforming*/) {}

  void On(const Closed& message) { closed = message.outcome; }

  std::unique_ptr<HostLink> link_;
};

class StreamTest : public ::testing::Test {
 protected:
  void Serve(int nodes) {
    host_ = std::make_unique<RunHost>(
        loop_,
        RunRules{.run_id = "run", .min_nodes = nodes, .max_nodes = nodes, .strict_ranks = true},
        RunTiming{},
        [this](const std::string& note) { notes_.push_back(note); });
    auto server = RendezvousServer::Listen(loop_, *host_, "127.0.0.1", 0);
    ASSERT_THAT(server, IsOk());
    server_ = std::move(server).value();
  }

  void TearDown() override {
    nodes_.clear();
    server_.reset();
    host_.reset();
  }

  Node& Add(int rank) {
    NodeIdentity identity = MakeNode("host" + std::to_string(rank), rank);
    identity.node_id += std::to_string(nodes_.size());
    nodes_.push_back(std::make_unique<Node>(loop_, server_->port(), std::move(identity)));
    return *nodes_.back();
  }

  /// Runs the loop until the condition holds; false after 30 s.
  bool Until(const std::function<bool()>& condition) {
    const auto limit = steady_clock::now() + kPatience;
    loop_.restart();
    while (!condition() && steady_clock::now() < limit) {
      loop_.run_one_for(std::chrono::milliseconds(100));
      loop_.restart();
    }
    return condition();
  }

  bool All(const std::function<bool(const Node&)>& condition) {
    return Until([&] {
      return std::all_of(
          nodes_.begin(), nodes_.end(), [&](const auto& node) { return condition(*node); });
    });
  }

  /// All nodes of the run, up to its start.
  void Start(int count) {
    Serve(count);
    for (int rank = 0; rank < count; ++rank) {
      Add(rank);
    }
    ASSERT_TRUE(All([](const Node& node) { return node.go.has_value(); }));
  }

  boost::asio::io_context loop_;
  std::unique_ptr<RunHost> host_;
  std::unique_ptr<RendezvousServer> server_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::string> notes_;
};

TEST_F(StreamTest, NodesMeetRunAndEndTogether) {
  Start(3);
  EXPECT_EQ(nodes_[2]->assigned->world_size, 6);
  EXPECT_EQ(nodes_[2]->assigned->nodes[1].address, "127.0.0.1");
  nodes_[1]->Send(Beat{5});
  nodes_[2]->Send(ControlAsk{{ControlRequest::Kind::kCheckpoint, "r-1"}});
  ASSERT_TRUE(All([](const Node& node) { return node.control.has_value(); }));
  EXPECT_EQ(nodes_[0]->control->request.id, "r-1");
  ASSERT_TRUE(Until([&] { return nodes_[1]->echoes == 1; }));
  for (int rank = 0; rank < 6; ++rank) {
    WorkerEnding ending;
    ending.rank = rank;
    nodes_[static_cast<size_t>(rank / 2)]->Send(Ended{1, ending});
  }
  for (const auto& node : nodes_) {
    node->Send(Stopped{1});
  }
  ASSERT_TRUE(All([](const Node& node) { return node.closed.has_value(); }));
  EXPECT_TRUE(nodes_[0]->closed->succeeded);
  ASSERT_TRUE(All([](const Node& node) { return !node.lost.empty(); }));
  EXPECT_THAT(nodes_[0]->lost, HasSubstr("the host ended the connection"));
}

TEST_F(StreamTest, AFailureReachesEveryNodeAndSoDoesItsCause) {
  Start(4);
  WorkerEnding ending;
  ending.rank = 7;
  ending.exit_code = 42;
  ending.last_lines = {"RuntimeError: the reason"};
  nodes_[3]->Send(Ended{1, ending});
  ASSERT_TRUE(All([](const Node& node) { return node.closed.has_value(); }));
  EXPECT_EQ(nodes_[0]->stop->reason, StopReason::kWorkerFailed);
  EXPECT_EQ(nodes_[0]->closed->exit_code, 42);
  EXPECT_EQ(nodes_[0]->closed->root_cause->last_lines, ending.last_lines);
}

TEST_F(StreamTest, ACutStreamIsALostNode) {
  Start(3);
  nodes_[1]->Drop();
  ASSERT_TRUE(Until([&] { return nodes_[0]->stop && nodes_[2]->stop; }));
  EXPECT_EQ(nodes_[0]->stop->reason, StopReason::kNodeLost);
  EXPECT_THAT(nodes_[0]->stop->text, HasSubstr("node 1 (host1)"));
}

TEST_F(StreamTest, ARefusalArrivesWithItsReasonAndDisturbsNobody) {
  Serve(3);
  Add(0);
  Add(1);
  ASSERT_TRUE(All([](const Node& node) { return node.waiting.has_value(); }));
  Node& twin = Add(1);
  ASSERT_TRUE(Until([&] { return twin.refused && !twin.lost.empty(); }));
  EXPECT_EQ(twin.refused->code, RefusalCode::kDuplicateRank);
  EXPECT_TRUE(nodes_[0]->lost.empty());
  nodes_.pop_back();
  Add(2);
  ASSERT_TRUE(All([](const Node& node) { return node.go.has_value(); }));
}

TEST_F(StreamTest, ALinkMayBeDestroyedInsideItsOwnEvent) {
  Serve(2);
  Add(0);
  ASSERT_TRUE(Until([&] { return nodes_[0]->waiting.has_value(); }));
  Node& twin = Add(0);
  twin.leaves_when_refused = true;
  ASSERT_TRUE(Until([&] { return twin.refused.has_value(); }));
  EXPECT_TRUE(twin.lost.empty());
}

TEST_F(StreamTest, TheLastWordsLeaveBeforeTheHostDoes) {
  Start(20);
  nodes_[0]->Send(StopRequest{{StopReason::kSignal, "SIGTERM on host0", 15}});
  ASSERT_TRUE(Until([&] { return host_->machine().state() == RunState::kClosed; }));
  const auto start = steady_clock::now();
  server_.reset();  // at once, with the outcome on its way to twenty nodes
  EXPECT_LT(MillisecondsSince(start), 2000);
  EXPECT_TRUE(All([](const Node& node) { return node.closed.has_value(); }));
}

TEST_F(StreamTest, AHostThatIsGoneIsNoticedAtOnce) {
  Start(2);
  server_.reset();
  const auto start = steady_clock::now();
  ASSERT_TRUE(All([](const Node& node) { return !node.lost.empty(); }));
  EXPECT_LT(MillisecondsSince(start), 1000);
}

TEST_F(StreamTest, NobodyThereIsSaidInWords) {
  Serve(2);
  const int port = server_->port();
  server_.reset();
  std::string why;
  const auto link = MakeRemoteLink(
      loop_,
      "127.0.0.1",
      port,
      {.message = {}, .lost = [&](const std::string& text) { why = text; }, .searching = {}});
  link->Send(Bye{"queued for nobody"});
  ASSERT_TRUE(Until([&] { return !why.empty(); }));
  EXPECT_EQ(why, fmt::format("127.0.0.1:{}: Connection refused", port));
}

TEST_F(StreamTest, SilenceInsteadOfAnAnswerEndsAfterThreeSeconds) {
  boost::asio::ip::tcp::acceptor mute(
      loop_, boost::asio::ip::tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), 0));
  std::string why;
  const auto start = steady_clock::now();
  const auto link = MakeRemoteLink(
      loop_,
      "127.0.0.1",
      mute.local_endpoint().port(),
      {.message = {}, .lost = [&](const std::string& text) { why = text; }, .searching = {}});
  ASSERT_TRUE(Until([&] { return !why.empty(); }));
  EXPECT_THAT(why, HasSubstr("no answer within 3 s"));
  EXPECT_LT(MillisecondsSince(start), 8000);
}

TEST_F(StreamTest, APortBelongsToOneHostAndTheErrorNamesIt) {
  Serve(2);
  RunHost other(loop_, {.run_id = "other", .min_nodes = 2, .max_nodes = 2}, {}, nullptr);
  EXPECT_THAT(RendezvousServer::Listen(loop_, other, "127.0.0.1", server_->port()),
              StatusIs(StatusCode::kAlreadyExists,
                       AllOf(HasSubstr(fmt::format("port {} is in use", server_->port())),
                             HasSubstr(fmt::format("pid {}", getpid())))));
  EXPECT_THAT(RendezvousServer::Listen(loop_, other, "192.0.2.1", 0),
              StatusIs(StatusCode::kUnavailable, HasSubstr("192.0.2.1:0")));
}

/// A client that speaks gRPC but not our rules.
class RawClient {
 public:
  explicit RawClient(int port)
      : stub_(
            v1::Rendezvous::NewStub(rpc::OpenChannel(rpc::TcpTarget("127.0.0.1", port), 1 << 20))),
        stream_(stub_->Join(&context_)) {}

  bool Write(const v1::NodeMessage& message) { return stream_->Write(message); }

  /// Blocks until the host ends the stream.
  grpc::Status End() {
    v1::HostMessage message;
    while (stream_->Read(&message)) {
    }
    return stream_->Finish();
  }

  v1::Rendezvous::Stub& stub() { return *stub_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Rendezvous::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::NodeMessage, v1::HostMessage>> stream_;
};

TEST_F(StreamTest, StrangersAreShownTheDoorAndTheRunGoesOn) {
  Serve(2);
  Add(0);
  ASSERT_TRUE(Until([&] { return nodes_[0]->waiting.has_value(); }));
  std::atomic<int> ended = 0;
  std::thread strangers([&] {
    const int port = server_->port();
    {
      RawClient unusable(port);
      v1::NodeMessage message;
      message.mutable_reserved()->set_port(-1);
      unusable.Write(message);
      (void)unusable.End();
      ++ended;
    }
    {
      RawClient huge(port);
      v1::NodeMessage message;
      message.mutable_bye()->set_reason(std::string(1 << 20, 'x'));
      huge.Write(message);
      (void)huge.End();
      ++ended;
    }
    {
      RawClient silent(port);  // is given five seconds
      (void)silent.End();
      ++ended;
    }
    {
      RawClient curious(port);
      grpc::ClientContext context;
      v1::DescribeReply reply;
      EXPECT_TRUE(curious.stub().Describe(&context, {}, &reply).ok());
      EXPECT_EQ(reply.run_id(), "run");
      EXPECT_EQ(reply.state(), "FORMING");
      EXPECT_THAT(reply.waiting_for(), HasSubstr("node rank 1"));
      ++ended;
    }
  });
  EXPECT_TRUE(Until([&] { return ended == 4; }));
  strangers.join();
  EXPECT_TRUE(nodes_[0]->lost.empty());
  Add(1);
  EXPECT_TRUE(All([](const Node& node) { return node.go.has_value(); }));
}

TEST_F(StreamTest, BytesThatAreNotHttpDisturbNobody) {
  Serve(2);
  boost::asio::ip::tcp::socket socket(loop_);
  socket.connect(
      {boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())});
  boost::asio::write(socket, boost::asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n\xff\xfe")));
  Add(0);
  Add(1);
  EXPECT_TRUE(All([](const Node& node) { return node.go.has_value(); }));
}

TEST_F(StreamTest, TwoHundredNodes) {
  constexpr int kNodes = 200;
  Serve(kNodes);
  const auto start = steady_clock::now();
  for (int rank = 1; rank < kNodes; ++rank) {
    Add(rank);
  }
  ASSERT_TRUE(All([](const Node& node) { return node.waiting.has_value(); }));
  const double joined = MillisecondsSince(start);
  const auto last_join = steady_clock::now();
  Add(0);
  ASSERT_TRUE(All([](const Node& node) { return node.go.has_value(); }));
  const double go = MillisecondsSince(last_join);
  WorkerEnding ending;
  ending.rank = 399;
  ending.exit_code = 1;
  const auto failure = steady_clock::now();
  nodes_[kNodes - 2]->Send(Ended{1, ending});
  ASSERT_TRUE(All([](const Node& node) { return node.stop.has_value(); }));
  std::vector<double> delays;
  for (const auto& node : nodes_) {
    delays.push_back(std::chrono::duration<double, std::milli>(node->stop_seen - failure).count());
  }
  std::sort(delays.begin(), delays.end());
  ASSERT_TRUE(All([](const Node& node) { return node.closed.has_value(); }));
  fmt::print(
      "{} nodes in one process: 199 joined in {:.0f} ms; last join -> go {:.0f} ms; a rank fails "
      "-> "
      "stop at every node: median {:.1f} ms, p99 {:.1f} ms; all closed after {:.0f} ms\n",
      kNodes,
      joined,
      go,
      delays[kNodes / 2],
      delays[kNodes * 99 / 100],
      MillisecondsSince(failure));
  EXPECT_LT(go, 5000);
}

}  // namespace
}  // namespace lr::launcher::testing
