// 200 nodes, or LR_NODES of them, against one host over loopback, in one process: real streams,
// pretended nodes. The bound of design.md 8 for 1,000 nodes holds although they share the machine
// with their host; as others may share it, too, that one is run on demand.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/rendezvous/local_link.h"
#include "launcher/rendezvous/remote_link.h"
#include "launcher/rendezvous/rendezvous_server.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using std::chrono::steady_clock;

constexpr int kLocalSize = 8;

/// Says yes to everything and notes what it heard.
struct SimulatedNode {
  int number = 0;
  int nodes = 0;  ///< of the run
  std::unique_ptr<HostLink> link;
  bool going = false;
  bool stopped = false;
  bool closed = false;
  std::string lost;

  void Take(const HostMessage& message) {
    if (const auto* reserve = std::get_if<Reserve>(&message)) {
      link->Send(Reserved{reserve->epoch, "127.0.0.1", 1, ""});
    } else if (const auto* assign = std::get_if<Assign>(&message)) {
      EXPECT_EQ(assign->assignment.nodes.size(), static_cast<size_t>(nodes));
      link->Send(Ack{assign->assignment.epoch, ""});
    } else if (std::holds_alternative<Go>(message)) {
      going = true;
    } else if (const auto* stop = std::get_if<Stop>(&message)) {
      stopped = true;
      link->Send(Stopped{stop->epoch});
    } else if (const auto* end = std::get_if<Closed>(&message)) {
      EXPECT_EQ(end->outcome.exit_code, 9);
      closed = true;
    } else if (const auto* refused = std::get_if<Refused>(&message)) {
      ADD_FAILURE() << number << ": " << refused->text;
    }
  }

  HostLink::Events Events() {
    HostLink::Events events;
    events.message = [this](const HostMessage& message) { Take(message); };
    events.lost = [this](const std::string& why) { lost = why; };
    return events;
  }

  Hello Introduction() const {
    Hello hello;
    hello.identity.node_id = fmt::format("id-{}", number);
    hello.identity.run_id = "run";
    hello.identity.host_name = fmt::format("node{}", number);
    hello.identity.pid = number;
    hello.identity.local_size = kLocalSize;
    hello.identity.min_nodes = hello.identity.max_nodes = nodes;
    hello.identity.node_rank = number;
    return hello;
  }
};

/// Each stream takes two descriptors of this process.
void RaiseDescriptorLimit() {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int NumberOfNodes() {
  const char* given = std::getenv("LR_NODES");  // NOLINT(concurrency-mt-unsafe): before any thread
  return given == nullptr ? 200 : std::atoi(given);
}

class ManyNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RaiseDescriptorLimit();
    auto server = RendezvousServer::Listen(loop_, host_, "127.0.0.1", 0);
    ASSERT_THAT(server, lr::testing::IsOk());
    server_ = std::move(server).value();
    for (int number = 0; number < nodes_count_; ++number) {
      nodes_.push_back(std::make_unique<SimulatedNode>());
      SimulatedNode& node = *nodes_.back();
      node.number = number;
      node.nodes = nodes_count_;
      node.link = number == 0 ? MakeLocalLink(loop_, host_, "127.0.0.1", node.Events())
                              : MakeRemoteLink(loop_, "127.0.0.1", server_->port(), node.Events());
    }
  }

  bool Until(const std::function<bool(const SimulatedNode&)>& condition) {
    const auto deadline = steady_clock::now() + std::chrono::seconds(30);
    const auto all = [&] {
      return std::ranges::all_of(nodes_, [&](const auto& node) { return condition(*node); });
    };
    while (!all()) {
      if (steady_clock::now() > deadline) {
        return false;
      }
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(20));
      loop_.poll();
    }
    return true;
  }

  std::string FirstLoss() const {
    const auto lost = std::ranges::find_if(nodes_, [](const auto& n) { return !n->lost.empty(); });
    return lost == nodes_.end() ? "" : fmt::format("; {}: {}", (*lost)->number, (*lost)->lost);
  }

  const int nodes_count_ = NumberOfNodes();
  boost::asio::io_context loop_;
  RunHost host_{
      loop_,
      {.run_id = "run", .min_nodes = nodes_count_, .max_nodes = nodes_count_, .strict_ranks = true},
      RunTiming{},
      nullptr};
  std::unique_ptr<RendezvousServer> server_;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
};

double MillisecondsSince(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

TEST_F(ManyNodesTest, FormFailAndCloseTogether) {
  const auto first_join = steady_clock::now();
  for (int number = 0; number < nodes_count_ - 1; ++number) {
    nodes_[static_cast<size_t>(number)]->link->Send(
        nodes_[static_cast<size_t>(number)]->Introduction());
  }
  while (host_.machine().WaitingFor().find(
             fmt::format("waiting for 1 of {} nodes", nodes_count_)) == std::string::npos) {
    ASSERT_LT(MillisecondsSince(first_join), 30'000) << host_.machine().WaitingFor();
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(20));
  }
  std::cout << nodes_count_ - 1 << " joins: " << MillisecondsSince(first_join) << " ms\n";

  const auto last_join = steady_clock::now();
  nodes_.back()->link->Send(nodes_.back()->Introduction());
  ASSERT_TRUE(Until([](const SimulatedNode& node) { return node.going; }))
      << host_.machine().WaitingFor() << FirstLoss();
  const double form = MillisecondsSince(last_join);
  std::cout << "last join -> go on all " << nodes_count_ << " nodes: " << form
            << " ms (bound 1000 ms)\n";
  EXPECT_LT(form, 1000);

  const auto failure = steady_clock::now();
  WorkerEnding ending;
  ending.rank = 17 * kLocalSize;
  ending.exit_code = 9;
  nodes_[17]->link->Send(Ended{1, ending});
  ASSERT_TRUE(Until([](const SimulatedNode& node) { return node.stopped; }));
  const double stop = MillisecondsSince(failure);
  std::cout << "a rank ends -> stop on all " << nodes_count_ << " nodes: " << stop << " ms\n";
  EXPECT_LT(stop, 1000);
  ASSERT_TRUE(Until([](const SimulatedNode& node) { return node.closed; }));
  ASSERT_TRUE(Until([](const SimulatedNode& node) {
    return node.number == 0 || !node.lost.empty();
  })) << "streams stay open after the end";
}

}  // namespace
}  // namespace lr::launcher
