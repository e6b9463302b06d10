// Several nodes over loopback: who serves, who is refused, how failures and losses travel.
#include <algorithm>
#include <iostream>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>

#include "tests/launcher/rendezvous/test_nodes.h"

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FreePort;
using ::testing::HasSubstr;
using testing::MakeEnding;
using testing::Nodes;
using testing::TestNode;

TEST(SeveralNodesTest, C10dFormsRunsAndSucceeds) {
  Nodes nodes(3);
  nodes.UseC10d(FreePort());
  TestNode& a = nodes.Start("node10");
  TestNode& b = nodes.Start("node2");
  TestNode& c = nodes.Start("node1");
  ASSERT_TRUE(nodes.UntilAllRun());
  EXPECT_EQ(a.assignment->world_size, 6);
  EXPECT_EQ(b.assignment->master_port, c.assignment->master_port);
  EXPECT_EQ(b.assignment->master_addr, "127.0.0.1");
  EXPECT_EQ(a.part().first_rank + b.part().first_rank + c.part().first_rank, 0 + 2 + 4);
  b.EndAll(0);
  a.EndAll(0);
  EXPECT_FALSE(c.over());
  c.EndAll(0);
  ASSERT_TRUE(nodes.UntilAllOver());
  for (const TestNode* node : {&a, &b, &c}) {
    ASSERT_TRUE(node->outcome);
    EXPECT_TRUE(node->outcome->succeeded) << node->outcome->reason;
  }
}

TEST(SeveralNodesTest, NodesThatMustNotServeDoNot) {
  Nodes nodes(2);
  nodes.UseC10d(FreePort());
  nodes.endpoint().is_host = false;
  TestNode& a = nodes.Start("a");
  nodes.endpoint().join_timeout = std::chrono::seconds(1);
  TestNode& b = nodes.Start("b");
  ASSERT_TRUE(nodes.Until([&] { return b.over(); }));
  ASSERT_TRUE(b.refused);
  EXPECT_EQ(b.refused->first, 75);
  EXPECT_FALSE(a.running);
}

TEST(SeveralNodesTest, StaticRanksHoldWhateverTheOrderOfStart) {
  for (const bool reversed : {false, true}) {
    Nodes nodes(2);
    nodes.UseStatic(FreePort());
    TestNode& first = nodes.Start("first", reversed ? 1 : 0);
    TestNode& second = nodes.Start("second", reversed ? 0 : 1);
    ASSERT_TRUE(nodes.UntilAllRun());
    EXPECT_EQ(first.part().node_rank, reversed ? 1 : 0);
    EXPECT_EQ(second.part().first_rank, reversed ? 0 : 2);
    EXPECT_EQ(first.assignment->master_port, nodes.endpoint().worker_port);
    first.EndAll(0);
    second.EndAll(0);
    EXPECT_TRUE(nodes.UntilAllOver());
  }
}

TEST(SeveralNodesTest, TwoRunsWithTheSameDefaultWorkerPortDoNotMix) {
  const int port = FreePort();
  Nodes one(2);
  Nodes two(2);
  one.UseStatic(port);
  two.UseStatic(port);
  for (Nodes* run : {&one, &two}) {  // a port that is asked for is refused to the second run
    run->endpoint().worker_port_explicit = false;
  }
  const auto other = [](NodeIdentity& identity) { identity.run_id = "other"; };
  TestNode& a = one.Start("a", 0);
  ASSERT_TRUE(one.Until([] { return true; }));
  TestNode& c = two.Start("c", 0, other);
  one.Start("b", 1);
  TestNode& d = two.Start("d", 1, other);
  ASSERT_TRUE(one.Until([&] {
    two.loop().restart();
    two.loop().run_for(milliseconds(10));
    return two.All([](const TestNode& n) { return n.running; }) &&
           one.All([](const TestNode& n) { return n.running; });
  }));
  EXPECT_EQ(c.assignment->run_id, "other");
  EXPECT_NE(c.assignment->master_port, a.assignment->master_port);
  EXPECT_EQ(d.assignment->nodes.size(), 2);
}

TEST(SeveralNodesTest, RunsWithTheSameDefaultPortFindTheirOwnHosts) {
  const int port = FreePort();
  std::vector<std::unique_ptr<Nodes>> runs;
  for (const char* id : {"one", "two", "three"}) {
    runs.push_back(std::make_unique<Nodes>(2));
    Nodes& run = *runs.back();
    run.UseC10d(port);
    run.endpoint().control_port_explicit = false;
    for (const char* name : {"a", "b"}) {
      run.Start(name, std::nullopt, [&](NodeIdentity& node) { node.run_id = id; });
    }
    const auto runs_all = [](const TestNode& node) { return node.running; };
    ASSERT_TRUE(run.Until([&] {
      for (const auto& other : runs) {  // their hosts say that it is another run
        other->loop().restart();
        other->loop().run_for(std::chrono::milliseconds(5));
      }
      return run.All(runs_all);
    })) << id;
  }
}

TEST(SeveralNodesTest, ARunWithoutANameIsNotMetByTheEndOfAnother) {
  const int port = FreePort();
  const auto nameless = [](NodeIdentity& node) { node.run_id = ""; };
  Nodes first(2);
  first.UseC10d(port);
  TestNode& a = first.Start("a", std::nullopt, nameless);
  TestNode& b = first.Start("b", std::nullopt, nameless);
  ASSERT_TRUE(first.UntilAllRun());
  a.EndAll(0);
  b.EndAll(0);
  ASSERT_TRUE(first.UntilAllOver());  // its host still stands at the port, and says that it is over
  Nodes second(2);
  second.UseC10d(port);
  TestNode& c = second.Start("c", std::nullopt, nameless);
  TestNode& d = second.Start("d", std::nullopt, nameless);
  EXPECT_FALSE(second.Until(
      [&] {
        first.loop().restart();
        first.loop().run_for(std::chrono::milliseconds(5));
        return c.over() || d.over();
      },
      std::chrono::milliseconds(500)));
  first.All([](TestNode& node) {
    node.membership.reset();
    return true;
  });
  ASSERT_TRUE(second.UntilAllRun());
}

TEST(SeveralNodesTest, AFailureStopsEverybodyAndItsCodeIsTheRuns) {
  Nodes nodes(2);
  nodes.UseC10d(FreePort());
  TestNode& a = nodes.Start("a");
  TestNode& b = nodes.Start("b");
  ASSERT_TRUE(nodes.UntilAllRun());
  b.membership->ReportEnded(1, MakeEnding(b.part().first_rank + 1, 7));
  ASSERT_TRUE(nodes.UntilAllOver());
  for (const TestNode* node : {&a, &b}) {
    ASSERT_TRUE(node->outcome);
    EXPECT_EQ(node->outcome->exit_code, 7);
    ASSERT_TRUE(node->outcome->root_cause);
    EXPECT_EQ(node->outcome->root_cause->rank, b.part().first_rank + 1);
    EXPECT_EQ(node->outcome->root_cause->host_name, "b");
    ASSERT_TRUE(node->stop);
    EXPECT_EQ(node->stop->reason, StopReason::kWorkerFailed);
  }
}

TEST(SeveralNodesTest, SignalsAndRequestsReachAllNodes) {
  Nodes nodes(2);
  nodes.UseC10d(FreePort());
  TestNode& a = nodes.Start("a");
  TestNode& b = nodes.Start("b");
  ASSERT_TRUE(nodes.UntilAllRun());
  b.membership->RequestControl({ControlRequest::Kind::kCheckpoint, "c1"});
  ASSERT_TRUE(nodes.Until([&] { return !a.requests.empty() && !b.requests.empty(); }));
  EXPECT_THAT(a.requests, ElementsAre("c1"));
  a.membership->RequestStop({StopReason::kSignal, "SIGINT on a", 2});
  ASSERT_TRUE(nodes.UntilAllOver());
  EXPECT_EQ(b.outcome->exit_code, 130);
  EXPECT_EQ(b.stop->signal, 2);
  EXPECT_THAT(b.outcome->reason, HasSubstr("SIGINT on a"));
}

TEST(SeveralNodesTest, ADuplicateRankIsRefusedAndTheMembersGoOn) {
  Nodes nodes(2);
  nodes.UseStatic(FreePort());
  TestNode& a = nodes.Start("a", 0);
  ASSERT_TRUE(nodes.Until([&] { return !a.waiting.empty(); }));
  TestNode& twin = nodes.Start("twin", 0);
  ASSERT_TRUE(nodes.Until([&] { return twin.over(); }));
  ASSERT_TRUE(twin.refused);
  EXPECT_EQ(twin.refused->first, 76);
  EXPECT_THAT(
      twin.refused->second,
      AllOf(HasSubstr("node rank 0"), HasSubstr("a (pid 101)"), HasSubstr("twin (pid 102)")));
  EXPECT_FALSE(a.over());
  twin.membership.reset();
  nodes.Start("b", 1);
  EXPECT_TRUE(nodes.UntilAllRun());
  EXPECT_THAT(a.notes, Contains(HasSubstr("refused twin")));
}

TEST(SeveralNodesTest, RefusalsNameFieldValuesAndHosts) {
  Nodes nodes(2);
  nodes.UseC10d(FreePort());
  TestNode& a = nodes.Start("a");
  ASSERT_TRUE(nodes.Until([&] { return !a.waiting.empty(); }));
  TestNode& stranger = nodes.Start("s", {}, [](NodeIdentity& n) { n.run_id = "else"; });
  TestNode& other = nodes.Start("o", {}, [](NodeIdentity& n) { n.plan_digest[0].second = "b"; });
  ASSERT_TRUE(nodes.Until([&] { return stranger.over() && other.over(); }));
  EXPECT_THAT(stranger.refused->second, AllOf(HasSubstr("'run'"), HasSubstr("'else'")));
  EXPECT_THAT(other.refused->second,
              AllOf(HasSubstr("plan mismatch in arguments"), HasSubstr("'a'"), HasSubstr("'b'")));
  stranger.membership.reset();
  other.membership.reset();
  nodes.Start("b");
  ASSERT_TRUE(nodes.UntilAllRun());
  TestNode& late = nodes.Start("late");
  ASSERT_TRUE(nodes.Until([&] { return late.over(); }));
  EXPECT_EQ(late.refused->first, 76);
  EXPECT_THAT(late.refused->second, HasSubstr("full: 2 of 2"));
}

TEST(SeveralNodesTest, JoinTimeoutSaysWhoIsHereAndWhoIsMissing) {
  Nodes nodes(3);
  nodes.UseStatic(FreePort());
  nodes.endpoint().join_timeout = std::chrono::seconds(1);
  TestNode& a = nodes.Start("a", 0);
  TestNode& c = nodes.Start("c", 2);
  ASSERT_TRUE(nodes.UntilAllOver());
  for (const TestNode* node : {&a, &c}) {
    ASSERT_TRUE(node->refused);
    EXPECT_EQ(node->refused->first, 75);
    EXPECT_THAT(node->refused->second,
                AllOf(HasSubstr("timed out after 1 s"), HasSubstr("a (pid")));
  }
}

TEST(SeveralNodesTest, ALostNodeStopsTheOthersAndIsNamed) {
  Nodes nodes(3);
  nodes.UseC10d(FreePort());
  TestNode& a = nodes.Start("a");
  TestNode& b = nodes.Start("b");
  TestNode& c = nodes.Start("c");
  ASSERT_TRUE(nodes.UntilAllRun());
  TestNode& client = c.notes.empty() ? c : b;
  client.membership.reset();
  ASSERT_TRUE(nodes.UntilAllOver());
  EXPECT_EQ(a.stop->reason, StopReason::kNodeLost);
  EXPECT_EQ(a.outcome->exit_code, 75);
  EXPECT_THAT(a.outcome->reason, AllOf(HasSubstr(client.name), HasSubstr("lost")));
}

TEST(SeveralNodesTest, ALostHostStopsTheOthersAtOnce) {
  Nodes nodes(2);
  nodes.UseC10d(FreePort());
  TestNode& a = nodes.Start("a");
  TestNode& b = nodes.Start("b");
  ASSERT_TRUE(nodes.UntilAllRun());
  TestNode& host = a.notes.empty() ? b : a;
  TestNode& client = a.notes.empty() ? a : b;
  host.membership.reset();
  ASSERT_TRUE(nodes.Until([&] { return client.over(); }));
  EXPECT_EQ(client.stop->reason, StopReason::kHostLost);
  ASSERT_TRUE(client.outcome);
  EXPECT_EQ(client.outcome->exit_code, 75);
  EXPECT_THAT(client.outcome->reason, HasSubstr("host of the rendezvous at 127.0.0.1"));
}

TEST(SeveralNodesTest, AHostThatLeavesBeforeTheStartIsReplaced) {
  Nodes nodes(2);
  nodes.UseC10d(FreePort());
  TestNode& a = nodes.Start("a");
  ASSERT_TRUE(nodes.Until([&] { return !a.waiting.empty(); }));
  a.membership.reset();
  TestNode& b = nodes.Start("b");
  TestNode& c = nodes.Start("c");
  ASSERT_TRUE(nodes.UntilAllRun());
  EXPECT_EQ(b.assignment->world_size, 4);
  EXPECT_FALSE(c.refused);
}

TEST(SeveralNodesTest, AForeignServerAtTheEndpointIsNamedInTheEnd) {
  boost::asio::io_context other;
  const boost::asio::ip::tcp::acceptor stranger(other,
                                                {boost::asio::ip::address_v4::loopback(), 0});
  Nodes nodes(2);
  nodes.UseC10d(stranger.local_endpoint().port());
  TestNode& a = nodes.Start("a");
  ASSERT_TRUE(nodes.Until([&] { return a.over(); }, std::chrono::seconds(30)));
  ASSERT_TRUE(a.refused);
  EXPECT_EQ(a.refused->first, 76);
  EXPECT_THAT(a.refused->second, HasSubstr(fmt::format("in use by pid {}", getpid())));
}

TEST(SeveralNodesTest, FailuresReachTheOtherNodeFast) {
  constexpr int kRuns = 100;
  std::vector<double> took;
  for (int i = 0; i < kRuns; ++i) {
    Nodes nodes(2);
    nodes.UseC10d(FreePort());
    TestNode& a = nodes.Start("a");
    TestNode& b = nodes.Start("b");
    ASSERT_TRUE(nodes.UntilAllRun());
    const auto start = steady_clock::now();
    std::optional<steady_clock::time_point> told;
    a.on_stop = [&] { told = steady_clock::now(); };
    b.membership->ReportEnded(1, MakeEnding(b.part().first_rank, 1));
    ASSERT_TRUE(nodes.Until([&] { return told.has_value(); }));
    took.push_back(std::chrono::duration<double, std::milli>(*told - start).count());
  }
  std::ranges::sort(took);
  std::cout << "rank ends -> stop on the other node, " << kRuns << " runs: median "
            << took[kRuns / 2] << " ms, p99 " << took[kRuns * 99 / 100] << " ms\n";
  EXPECT_LT(took[kRuns * 99 / 100], 200);
}

}  // namespace
}  // namespace lr::launcher
