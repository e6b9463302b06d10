// Random walks through the run machine: nodes that say whatever they like, whenever they like, and
// sometimes disappear. What must hold on every step of every walk is checked here; the stories are
// in run_machine_test.cc.
#include <random>
#include <set>
#include <vector>

#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

struct WalkNode {
  int64_t go_epoch = 0;  ///< the newest epoch this node was told to start
  int64_t assigned_epoch = 0;
  bool refused = false;
  bool closed = false;
};

class Walk {
 public:
  explicit Walk(uint32_t seed)
      : random_(seed),
        nodes_(Draw(1, 4)),
        min_nodes_(Draw(0, 1) == 0 ? nodes_ : Draw(1, nodes_)),
        machine_({.run_id = "run",
                  .min_nodes = min_nodes_,
                  .max_nodes = nodes_,
                  .strict_ranks = Draw(0, 1) == 1,
                  .native = Draw(0, 1) == 1,
                  .output_dir = Draw(0, 1) == 1 ? "/out" : "",
                  .policy = AnyPolicy(),
                  .seed = seed},
                 AnyTiming(),
                 now_) {
    for (int slot = 0; slot <= nodes_ + 1; ++slot) {
      ids_.push_back(slot + 1);
    }
  }

  void Run() {
    for (int step = 0; step < 400 && machine_.state() != RunState::kClosed; ++step) {
      Step();
    }
    // Whatever happened: left alone, the run ends or waits for somebody it can name.
    for (int second = 0; second < 2000 && machine_.state() != RunState::kClosed; ++second) {
      now_ += std::chrono::seconds(1);
      Take(machine_.Tick(now_));
      CheckStep();
    }
    if (machine_.state() == RunState::kClosed) {
      EXPECT_TRUE(machine_.outcome().has_value());
      EXPECT_FALSE(machine_.outcome()->reason.empty());
    } else {  // only the host's own node, which cannot fall silent, may be waited for
      EXPECT_THAT(machine_.WaitingFor(), ::testing::Not(::testing::IsEmpty()));
      EXPECT_TRUE(local_joined_);
      Take(machine_.StreamLost(1, "the end of the walk", now_));
      EXPECT_EQ(machine_.state(), RunState::kClosed) << machine_.WaitingFor();
    }
  }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  RunPolicy AnyPolicy() {
    RunPolicy policy;
    policy.restarts.max_restarts = Draw(0, 3);
    if (Draw(0, 2) == 0) {
      policy.restarts.max_node_losses = Draw(0, 3);
    }
    policy.restarts.always = Draw(0, 3) == 0;
    policy.grow = static_cast<GrowRule>(Draw(0, 2));
    policy.spares = Draw(0, 1);
    return policy;
  }

  RunTiming AnyTiming() {
    RunTiming timing;
    timing.last_call = std::chrono::seconds(Draw(0, 5));
    timing.reform_last_call = std::chrono::seconds(Draw(0, 2));
    return timing;
  }

  /// Somebody who takes part, or could.
  int AnySlot() { return Draw(0, nodes_ + 1); }

  int64_t AnyEpoch() { return machine_.epoch() - (Draw(0, 9) == 0 ? 1 : 0); }

  void Step() {
    now_ += std::chrono::milliseconds(Draw(0, 300));
    const int slot = AnySlot();
    const MemberId node = ids_[static_cast<size_t>(slot)];
    switch (Draw(0, 13)) {
      case 0:
        Take(machine_.Tick(now_));
        break;
      case 1:
        if (Draw(0, 5) == 0) {
          running_.erase(node);
          Take(machine_.StreamLost(node, "cut", now_));
          ids_[static_cast<size_t>(slot)] = next_id_++;  // streams are never used again
        }
        break;
      case 2:
      case 3:
        Join(slot, node);
        break;
      case 4:
        Say(node, Reserved{AnyEpoch(), "10.0.0.1", 4000, Draw(0, 30) == 0 ? "busy" : ""});
        break;
      case 5:
      case 6:
        Say(node, Ack{AnyEpoch(), Draw(0, 40) == 0 ? "no route" : ""});
        break;
      case 7:
        Say(node, Beat{});
        break;
      case 8:
      case 9:
        End(node);
        break;
      case 10:
        ReportStopped(node);
        break;
      case 11:
        if (Draw(0, 20) == 0) {
          Say(node, StopRequest{{StopReason::kSignal, "signal", 15}});
        } else {
          Say(node, ControlAsk{{ControlRequest::Kind::kCheckpoint, "r"}});
        }
        break;
      case 12:
        Say(node, Surveyed{AnyEpoch(), {}});
        break;
      default:
        if (Draw(0, 20) == 0) {
          Say(node, Bye{"enough"});
        }
    }
    CheckStep();
  }

  void Join(int slot, MemberId node) {
    if (slot == 0 && node != 1) {
      return;  // the host's own node was cut off: there is no host
    }
    Hello hello;
    hello.identity = MakeNode("host" + std::to_string(node), slot);
    hello.local = slot == 0;
    local_joined_ = local_joined_ || hello.local;
    Say(node, hello);
  }

  void End(MemberId node) {
    WorkerEnding ending;
    ending.rank = Draw(0, 2 * nodes_ - 1);
    ending.exit_code = Draw(0, 30) == 0 ? 3 : 0;
    ending.stopped_early = Draw(0, 1) == 0;
    ending.stopped_by_us = machine_.state() == RunState::kStopping && Draw(0, 1) == 0;
    Say(node, Ended{AnyEpoch(), ending});
  }

  void ReportStopped(MemberId node) {
    const int64_t epoch = AnyEpoch();
    if (running_.contains(node) && running_[node] == epoch) {
      running_.erase(node);
    }
    Say(node, Stopped{epoch});
  }

  void Say(MemberId node, NodeMessage message) {
    if (const Ack* ack = std::get_if<Ack>(&message)) {
      if (ack->epoch == machine_.epoch() && ack->epoch == sent_[node].assigned_epoch) {
        acked_[ack->epoch].insert(node);
      }
    }
    Take(machine_.Handle(node, message, now_));
  }

  void Take(const RunActions& actions) {
    for (const RunAction& action : actions) {
      EXPECT_FALSE(action.reason.empty());
      if (action.kind == RunAction::Kind::kDrop) {
        running_.erase(action.member);  // cut off: its launcher fences its workers
        sent_[action.member].closed = false;
      }
      if (action.kind == RunAction::Kind::kSend) {
        std::visit([&](const auto& message) { Got(action.member, message); }, *action.message);
      }
    }
  }

  template <typename T>
  void Got(MemberId /*node*/, const T& /*message*/) {}

  void Got(MemberId node, const Assign& assign) {
    EXPECT_GT(assign.assignment.epoch, sent_[node].go_epoch);
    sent_[node].assigned_epoch = assign.assignment.epoch;
    members_[assign.assignment.epoch].insert(node);
    const int size = static_cast<int>(assign.assignment.nodes.size());
    EXPECT_THAT(size, ::testing::AllOf(::testing::Ge(min_nodes_), ::testing::Le(nodes_)));
    EXPECT_EQ(assign.assignment.world_size, 2 * size);
  }

  void Got(MemberId node, const Go& go) {
    EXPECT_EQ(go.epoch, machine_.epoch());
    EXPECT_EQ(go.epoch, sent_[node].assigned_epoch) << "started without its part of the plan";
    for (const auto& [other, epoch] : running_) {
      EXPECT_EQ(epoch, go.epoch) << "two epochs ran";
    }
    running_[node] = go.epoch;
    sent_[node].go_epoch = go.epoch;
    EXPECT_EQ(acked_[go.epoch], members_[go.epoch]) << "started before everybody had accepted";
  }

  void Got(MemberId node, const Stop& stop) {
    EXPECT_EQ(stop.epoch, sent_[node].go_epoch);
    EXPECT_FALSE(stop.order.text.empty());
  }

  void Got(MemberId node, const Reforming& reforming) {
    EXPECT_EQ(reforming.epoch, sent_[node].go_epoch);
    EXPECT_FALSE(running_.contains(node)) << "formed anew over running workers";
    EXPECT_FALSE(reforming.ended.succeeded) << "a finished run started again";
    EXPECT_FALSE(reforming.ended.next.empty());
    ++reformings_;
  }

  void Got(MemberId node, const Closed& closed) {
    EXPECT_FALSE(sent_[node].closed) << "closed twice";
    sent_[node].closed = true;
    EXPECT_EQ(closed.outcome.succeeded, closed.outcome.exit_code == 0);
  }

  void Got(MemberId node, const Refused& refused) {
    EXPECT_FALSE(sent_[node].closed);
    EXPECT_FALSE(refused.text.empty());
    EXPECT_TRUE(refused.exit_code == 75 || refused.exit_code == 76 || refused.exit_code == 143);
    sent_[node] = {};
  }

  /// The state goes back behind RUNNING only by forming the next epoch, and the reason to wait is
  /// always known.
  void CheckStep() {
    const RunState state = machine_.state();
    EXPECT_EQ(machine_.WaitingFor().empty(), state == RunState::kClosed);
    if (last_ >= RunState::kRunning && reformings_ == 0 && !running_.empty()) {
      EXPECT_GE(state, last_);
    }
    last_ = state;
    reformings_ = 0;
  }

  std::mt19937 random_;
  int nodes_;  ///< at most
  int min_nodes_;
  Instant now_{0};
  RunMachine machine_;
  RunState last_ = RunState::kOpen;
  bool local_joined_ = false;
  std::map<MemberId, WalkNode> sent_;
  std::map<int64_t, std::set<MemberId>> members_;
  std::map<int64_t, std::set<MemberId>> acked_;
  std::map<MemberId, int64_t> running_;  ///< epoch of a node's workers
  std::vector<MemberId> ids_;            ///< of the slots; slot 0 is the host's own node
  MemberId next_id_ = 100;
  int reformings_ = 0;
};

TEST(RunMachineWalkTest, InvariantsHoldOnEveryWalk) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Walk(seed).Run();
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace lr::launcher::testing
