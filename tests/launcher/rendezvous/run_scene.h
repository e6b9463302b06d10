#pragma once
/// A run machine with pretended nodes, for tests that read like the story they tell: nodes join,
/// answer and die by name, time passes when told. Keeps what each node was sent.

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline NodeIdentity MakeNode(const std::string& host, std::optional<int> rank = std::nullopt) {
  NodeIdentity node;
  node.node_id = "id-" + host;
  node.run_id = "run";
  node.host_name = host;
  node.pid = 100;
  node.local_size = 2;
  node.node_rank = rank;
  node.program_name = "train.py";
  node.plan_digest = {{"arguments", "a"}, {"build", "1"}};
  return node;
}

class RunScene {
 public:
  explicit RunScene(int nodes, bool strict_ranks = false, RunPolicy policy = {})
      : RunScene(RunRules{.run_id = "run",
                          .min_nodes = nodes,
                          .max_nodes = nodes,
                          .strict_ranks = strict_ranks,
                          .policy = policy}) {}

  explicit RunScene(RunRules rules) : machine_(std::move(rules), {}, now_) {}

  RunMachine& machine() { return machine_; }

  void Pass(std::chrono::nanoseconds span) { now_ += span; }

  /// Time in steps of 250 ms, as the host ticks.
  void Tick(std::chrono::nanoseconds span) {
    const Instant end = now_ + span;
    while (now_ < end) {
      now_ = std::min<Instant>(end, now_ + milliseconds(250));
      Take(machine_.Tick(now_));
    }
  }

  /// The same with nodes 1 … n alive.
  void Tick(std::chrono::nanoseconds span, int nodes) {
    for (Instant end = now_ + span; now_ < end;) {
      Tick(std::min<std::chrono::nanoseconds>(seconds(1), end - now_));
      for (int node = 1; node <= nodes; ++node) {
        Say(node, Beat{});
      }
    }
  }

  void TickAtOnce() { Take(machine_.Tick(now_)); }

  void Say(MemberId node, NodeMessage message) { Take(machine_.Handle(node, message, now_)); }

  void Join(MemberId node, NodeIdentity identity, bool local = false) {
    Hello hello;
    hello.identity = std::move(identity);
    hello.seen_from = "10.0.0." + std::to_string(node);
    hello.local = local;
    Say(node, hello);
  }

  void Lose(MemberId node, const std::string& why = "connection closed") {
    Take(machine_.StreamLost(node, why, now_));
  }

  /// Nodes 1 … n join; node 1 is the host's own.
  void JoinAll(int nodes) {
    for (int node = 1; node <= nodes; ++node) {
      Join(node, MakeNode("host" + std::to_string(node), node - 1), node == 1);
    }
  }

  void ReserveAndAck(int nodes) {
    Say(1, Reserved{machine_.epoch(), "10.0.0.1", 4000, ""});
    for (int node = 1; node <= nodes; ++node) {
      Say(node, Ack{machine_.epoch(), ""});
    }
  }

  void RunAll(int nodes) {
    JoinAll(nodes);
    ReserveAndAck(nodes);
    ASSERT_EQ(machine_.state(), RunState::kRunning);
  }

  WorkerEnding Ending(int rank, int exit_code = 0, bool by_us = false, int64_t at = 0) {
    WorkerEnding ending;
    ending.rank = rank;
    ending.pid = 1000 + rank;
    ending.exit_code = exit_code;
    ending.stopped_by_us = by_us;
    ending.end_unix_ns = at;
    return ending;
  }

  void End(MemberId node, int rank, int exit_code = 0, bool by_us = false, int64_t at = 0) {
    Say(node, Ended{machine_.epoch(), Ending(rank, exit_code, by_us, at)});
  }

  /// All workers of the epoch end: `failing` with `exit_code` after `uptime`, the others because
  /// they are stopped.
  void FailEpoch(int nodes, int failing, int exit_code, seconds uptime = seconds(60)) {
    Tick(uptime, nodes);
    for (const int rank : RanksFrom(failing, 2 * nodes)) {
      WorkerEnding ending = Ending(rank, rank == failing ? exit_code : 143, rank != failing);
      ending.end_unix_ns = std::chrono::nanoseconds(uptime).count();
      Say(rank / 2 + 1, Ended{machine_.epoch(), ending});
    }
    for (int node = 1; node <= nodes; ++node) {
      Stop(node);
    }
  }

  void Stop(MemberId node) { Say(node, Stopped{machine_.epoch()}); }

  /// The newest message of type T that `node` was sent; fails the test without one.
  template <typename T>
  T Last(MemberId node) {
    for (auto it = sent_[node].rbegin(); it != sent_[node].rend(); ++it) {
      if (const T* message = std::get_if<T>(&**it)) {
        return *message;
      }
    }
    ADD_FAILURE() << "node " << node << " never got that message";
    return {};
  }

  template <typename T>
  int Count(MemberId node) {
    int count = 0;
    for (const SharedHostMessage& message : sent_[node]) {
      count += std::holds_alternative<T>(*message) ? 1 : 0;
    }
    return count;
  }

  const std::vector<std::string>& notes() const { return notes_; }

  const std::map<MemberId, std::string>& dropped() const { return dropped_; }

  const RunOutcome& outcome() { return machine_.outcome().value(); }  // NOLINT: asserted by callers

 private:
  static std::vector<int> RanksFrom(int first, int count) {
    std::vector<int> ranks;
    for (int i = 0; i < count; ++i) {
      ranks.push_back((first + i) % count);
    }
    return ranks;
  }

  void Take(const RunActions& actions) {
    for (const RunAction& action : actions) {
      EXPECT_FALSE(action.reason.empty());
      switch (action.kind) {
        case RunAction::Kind::kSend:
          sent_[action.member].push_back(action.message);
          break;
        case RunAction::Kind::kDrop:
          dropped_[action.member] = action.reason;
          break;
        case RunAction::Kind::kNote:
          notes_.push_back(action.reason);
          break;
      }
    }
  }

  Instant now_{seconds(1000)};
  RunMachine machine_;
  std::map<MemberId, std::vector<SharedHostMessage>> sent_;
  std::map<MemberId, std::string> dropped_;
  std::vector<std::string> notes_;
};

}  // namespace lr::launcher::testing
