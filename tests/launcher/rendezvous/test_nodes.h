#pragma once
/// Memberships of several nodes on one event loop, over loopback, as several launchers on one
/// machine would be: the first to bind serves. Workers are pretended: they end as told.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/rendezvous/membership.h"
#include "launcher/rendezvous/port_holder.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher::testing {

inline int FreePort() {
  const auto holder = PortHolder::Hold(0);
  EXPECT_TRUE(holder.ok());
  return (*holder)->port();
}

inline WorkerEnding MakeEnding(int rank, int exit_code) {
  WorkerEnding ending;
  ending.rank = rank;
  ending.exit_code = exit_code;
  ending.end_unix_ns = 1'000'000 + rank;
  return ending;
}

/// One launcher without workers.
struct TestNode {
  std::string name;
  std::unique_ptr<Membership> membership;
  std::vector<std::string> waiting;
  std::vector<std::string> notes;
  std::vector<std::string> requests;
  std::optional<Assignment> assignment;
  bool running = false;
  std::vector<RunOutcome> reformed;  ///< epochs that ended
  std::optional<StopOrder> stop;
  std::optional<RunOutcome> outcome;
  std::optional<std::pair<int, std::string>> refused;
  std::function<void()> on_stop;

  bool over() const { return outcome || refused; }

  const NodeAssignment& part() const {
    for (const NodeAssignment& node : assignment->nodes) {
      if (node.node_id == "id-" + name) {
        return node;
      }
    }
    ADD_FAILURE() << name << " is not part of its own assignment";
    return assignment->nodes.front();
  }

  void EndAll(int exit_code) {
    for (int i = 0; i < part().local_size; ++i) {
      membership->ReportEnded(assignment->epoch, MakeEnding(part().first_rank + i, exit_code));
    }
    membership->ReportStopped(assignment->epoch);
  }
};

class Nodes {
 public:
  explicit Nodes(int count) : count_(count) {}

  /// Static rendezvous on `port`: node ranks are binding.
  void UseStatic(int port) {
    endpoint_.worker_port = port;
    endpoint_.worker_port_explicit = true;
    endpoint_.control_port = 0;
  }

  void UseC10d(int port) { endpoint_.control_port = port; }

  RendezvousEndpoint& endpoint() { return endpoint_; }

  boost::asio::io_context& loop() { return loop_; }

  TestNode& Start(const std::string& name,
                  std::optional<int> rank = std::nullopt,
                  const std::function<void(NodeIdentity&)>& change = nullptr) {
    nodes_.push_back(std::make_unique<TestNode>());
    TestNode& node = *nodes_.back();
    node.name = name;
    NodeIdentity identity;
    identity.node_id = "id-" + name;
    identity.run_id = "run";
    identity.host_name = name;
    identity.pid = 100 + static_cast<int64_t>(nodes_.size());
    identity.local_size = 2;
    identity.min_nodes = identity.max_nodes = count_;
    identity.node_rank = rank;
    identity.plan_digest = {{"arguments", "a"}};
    if (change) {
      change(identity);
    }
    auto membership = Membership::Start(loop_, identity, endpoint_, EventsOf(node));
    EXPECT_THAT(membership, lr::testing::IsOk());
    node.membership = std::move(membership).value();
    return node;
  }

  /// Runs the loop until the condition holds; false after `limit`.
  bool Until(const std::function<bool()>& condition,
             std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  bool UntilAllRun() {
    return Until([&] { return All([](const TestNode& node) { return node.running; }); });
  }

  bool UntilAllOver() {
    return Until([&] { return All([](const TestNode& node) { return node.over(); }); });
  }

  template <typename Predicate>
  bool All(Predicate predicate) const {
    for (const auto& node : nodes_) {
      if (node->membership && !predicate(*node)) {
        return false;
      }
    }
    return true;
  }

 private:
  static Membership::Events EventsOf(TestNode& node) {
    Membership::Events events;
    events.waiting = [&node](const std::string& line) { node.waiting.push_back(line); };
    events.note = [&node](const std::string& line) { node.notes.push_back(line); };
    events.assigned = [&node](const Assignment& assignment) { node.assignment = assignment; };
    events.go = [&node](int64_t) { node.running = true; };
    events.stop = [&node](const StopOrder& order) {
      node.stop = order;
      if (node.on_stop) {
        node.on_stop();
      }
      node.membership->ReportStopped(node.assignment->epoch);
    };
    events.reforming = [&node](const RunOutcome& ended) {
      node.running = false;
      node.reformed.push_back(ended);
    };
    events.request = [&node](const ControlRequest& ask) { node.requests.push_back(ask.id); };
    events.closed = [&node](const RunOutcome& outcome) { node.outcome = outcome; };
    events.refused = [&node](int code, const std::string& text) { node.refused = {code, text}; };
    return events;
  }

  const int count_;
  boost::asio::io_context loop_;
  RendezvousEndpoint endpoint_{.standalone = false,
                               .host = "127.0.0.1",
                               .worker_port = 0,
                               .control_port = 0,
                               .worker_port_explicit = false,
                               .join_timeout = std::chrono::seconds(20),
                               .policy = {}};
  std::vector<std::unique_ptr<TestNode>> nodes_;
};

}  // namespace lr::launcher::testing
