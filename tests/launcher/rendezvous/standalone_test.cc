// A standalone membership: one process, no socket but the held worker port.
#include <optional>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/rendezvous/membership.h"
#include "launcher/rendezvous/port_holder.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::HasSubstr;

NodeIdentity OneNode() {
  NodeIdentity identity;
  identity.node_id = "abc";
  identity.run_id = "run";
  identity.host_name = "here";
  identity.local_size = 2;
  return identity;
}

WorkerEnding Ending(int rank, int exit_code) {
  WorkerEnding ending;
  ending.rank = ending.local_rank = rank;
  ending.exit_code = exit_code;
  ending.host_name = "here";
  ending.end_unix_ns = 1000 + rank;
  return ending;
}

/// Two workers that end with the given codes as soon as they may start, or are stopped.
struct Node {
  boost::asio::io_context loop;
  RendezvousEndpoint endpoint;
  std::unique_ptr<Membership> membership;
  std::optional<Assignment> assignment;
  std::optional<StopOrder> stop;
  std::optional<RunOutcome> outcome;
  std::optional<std::pair<int, std::string>> refused;
  std::vector<std::string> requests;
  std::function<void(int64_t epoch)> go = [](int64_t) {};

  Status Start() {
    endpoint.standalone = true;
    Membership::Events events;
    events.waiting = [](const std::string& line) { FAIL() << line; };
    events.assigned = [this](const Assignment& a) { assignment = a; };
    events.go = [this](int64_t epoch) { go(epoch); };
    events.stop = [this](const StopOrder& order) {
      stop = order;
      membership->ReportStopped(assignment->epoch);
    };
    events.request = [this](const ControlRequest& request) { requests.push_back(request.id); };
    events.closed = [this](const RunOutcome& o) { outcome = o; };
    events.refused = [this](int code, const std::string& text) { refused = {code, text}; };
    LR_ASSIGN(membership, Membership::Start(loop, OneNode(), endpoint, events));
    return {};
  }

  void Run() { loop.run_for(std::chrono::seconds(5)); }
};

TEST(StandaloneTest, AssignsAllRanksAndEndsWithZero) {
  Node node;
  node.go = [&](int64_t epoch) {
    const auto port = static_cast<uint16_t>(node.assignment->master_port);
    boost::asio::io_context loop;
    const boost::asio::ip::tcp::endpoint any(boost::asio::ip::tcp::v4(), port);
    EXPECT_THROW(boost::asio::ip::tcp::acceptor(loop, any, /*reuse_addr=*/false),
                 boost::system::system_error)
        << "the port is anybody's";
    EXPECT_NO_THROW(boost::asio::ip::tcp::acceptor(loop, any)) << "no store can have it";
    node.membership->ReportEnded(epoch, Ending(0, 0));
    node.membership->ReportEnded(epoch, Ending(1, 0));
    node.membership->ReportStopped(epoch);
  };
  ASSERT_THAT(node.Start(), IsOk());
  node.Run();
  ASSERT_TRUE(node.assignment);
  EXPECT_EQ(node.assignment->world_size, 2);
  EXPECT_EQ(node.assignment->master_addr, "localhost");
  EXPECT_GT(node.assignment->master_port, 0);
  EXPECT_EQ(node.assignment->run_id, "run");
  ASSERT_TRUE(node.outcome);
  EXPECT_TRUE(node.outcome->succeeded) << node.outcome->reason;
  EXPECT_FALSE(node.stop);
}

TEST(StandaloneTest, OneFailureStopsTheOtherAndGivesItsCode) {
  Node node;
  node.go = [&](int64_t epoch) { node.membership->ReportEnded(epoch, Ending(1, 7)); };
  ASSERT_THAT(node.Start(), IsOk());
  node.Run();
  ASSERT_TRUE(node.stop);
  EXPECT_THAT(node.stop->text, HasSubstr("rank 1 on node 0 (here) ended with exit code 7"));
  ASSERT_TRUE(node.outcome);
  EXPECT_EQ(node.outcome->exit_code, 7);
  ASSERT_TRUE(node.outcome->root_cause);
  EXPECT_EQ(node.outcome->root_cause->rank, 1);
}

TEST(StandaloneTest, ASignalStopsTheRun) {
  Node node;
  node.go = [&](int64_t) {
    node.membership->RequestControl({ControlRequest::Kind::kCheckpoint, "c1"});
    node.membership->RequestStop({StopReason::kSignal, "SIGINT", 2});
  };
  ASSERT_THAT(node.Start(), IsOk());
  node.Run();
  EXPECT_THAT(node.requests, ::testing::ElementsAre("c1"));
  ASSERT_TRUE(node.outcome);
  EXPECT_EQ(node.outcome->exit_code, 130);
  EXPECT_THAT(node.outcome->reason, HasSubstr("SIGINT"));
}

TEST(StandaloneTest, BusyExplicitPortIsRefusedAndItsHolderNamed) {
  const auto held = PortHolder::Hold(0);
  ASSERT_THAT(held, IsOk());
  boost::asio::io_context loop;
  Node node;
  node.endpoint.worker_port = (*held)->port();
  node.endpoint.worker_port_explicit = true;
  // A holder alone does not block another one (both reuse the address); a listener does.
  boost::asio::ip::tcp::acceptor listener(
      loop, {boost::asio::ip::tcp::v4(), static_cast<uint16_t>((*held)->port())});
  ASSERT_THAT(node.Start(), IsOk());
  node.Run();
  ASSERT_TRUE(node.refused);
  EXPECT_EQ(node.refused->first, 76);
  EXPECT_THAT(node.refused->second, HasSubstr(fmt::format("in use by pid {}", getpid())));
}

TEST(StandaloneTest, BusyDefaultPortIsReplaced) {
  boost::asio::io_context loop;
  boost::asio::ip::tcp::acceptor listener(loop, {boost::asio::ip::tcp::v4(), 0});
  Node node;
  node.endpoint.worker_port = listener.local_endpoint().port();
  node.go = [&](int64_t epoch) {
    node.membership->RequestStop({StopReason::kSignal, "enough", 15});
  };
  ASSERT_THAT(node.Start(), IsOk());
  node.Run();
  ASSERT_TRUE(node.assignment);
  EXPECT_NE(node.assignment->master_port, listener.local_endpoint().port());
}

}  // namespace
}  // namespace lr::launcher
