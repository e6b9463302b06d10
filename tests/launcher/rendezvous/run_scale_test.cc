// The run machine's own cost with 1,000 and 10,000 nodes of 8 ranks, without streams:
// what the host's loop spends on deciding. many_nodes_test.cc has real streams.
#include <chrono>
#include <iostream>

#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using std::chrono::steady_clock;

constexpr int kLocalSize = 8;

class ScaleTest : public ::testing::TestWithParam<int> {
 protected:
  ScaleTest()
      : machine_(
            {.run_id = "run", .min_nodes = GetParam() - 1, .max_nodes = GetParam()}, {}, now_) {}

  void Say(MemberId node, const NodeMessage& message) {
    for (const RunAction& action : machine_.Handle(node, message, now_)) {
      actions_ += action.kind == RunAction::Kind::kSend ? 1 : 0;
    }
  }

  void Join(MemberId node) {
    Hello hello;
    hello.identity = MakeNode("node" + std::to_string(node));
    hello.identity.local_size = kLocalSize;
    hello.local = node == 1;
    Say(node, hello);
  }

  void Commit(int first, int last) {
    Say(1, Reserved{machine_.epoch(), "10.0.0.1", 4000, ""});
    for (int node = first; node <= last; ++node) {
      Say(node, Ack{machine_.epoch(), ""});
    }
  }

  void Tick(std::chrono::nanoseconds span) {
    now_ += span;
    machine_.Tick(now_);
  }

  /// Runs `what`, prints and returns its seconds.
  template <typename Step>
  double Timed(const std::string& what, Step step) {
    const auto start = steady_clock::now();
    step();
    const double took = std::chrono::duration<double>(steady_clock::now() - start).count();
    std::cout << GetParam() << " nodes, " << what << ": " << took * 1000 << " ms\n";
    return took;
  }

  const int nodes_ = GetParam();
  Instant now_{seconds(1000)};
  RunMachine machine_;
  int64_t actions_ = 0;
};

TEST_P(ScaleTest, FormsBeatsStopsAndFormsAgain) {
  Timed("joins but the last", [&] {
    for (int node = 1; node < nodes_; ++node) {
      Join(node);
    }
  });
  const double form = Timed("last join -> GO for all", [&] {
    Join(nodes_);
    Commit(1, nodes_);
  });
  ASSERT_EQ(machine_.state(), RunState::kRunning) << machine_.WaitingFor();
  EXPECT_LT(form, nodes_ <= 1000 ? 1.0 : 10.0);

  const double beat = Timed("one second of beats", [&] {
    for (int node = 1; node <= nodes_; ++node) {
      Say(node, Beat{});
    }
    for (int tick = 0; tick < 4; ++tick) {
      Tick(milliseconds(250));
    }
  });
  EXPECT_LT(beat, 0.25);

  actions_ = 0;
  const double stop = Timed("a node is lost -> STOP for all", [&] {
    for (const RunAction& action : machine_.StreamLost(nodes_, "connection closed", now_)) {
      actions_ += action.kind == RunAction::Kind::kSend ? 1 : 0;
    }
  });
  EXPECT_EQ(actions_, nodes_ - 1);
  EXPECT_LT(stop, 1.0);

  const double again = Timed("all have stopped -> GO for the others", [&] {
    for (int node = 1; node < nodes_; ++node) {
      Say(node, Stopped{machine_.epoch()});
    }
    for (int second = 0; second < 6; ++second) {  // the last call
      Tick(seconds(1));
    }
    Commit(1, nodes_ - 1);
  });
  EXPECT_EQ(machine_.state(), RunState::kRunning) << machine_.WaitingFor();
  EXPECT_LT(again, nodes_ <= 1000 ? 1.0 : 10.0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ScaleTest, ::testing::Values(1000, 10'000));

}  // namespace
}  // namespace lr::launcher::testing
