// Hangs, stacks and stragglers as the host sees them: boards of pretended nodes through the run
// machine.
#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Kind = WatchReport::Kind;

/// Two nodes of two ranks each.
class WatchScene : public RunScene {
 public:
  explicit WatchScene(RunPolicy policy = {}) : RunScene(2, true, policy) {
    RunAll(2);
    for (int rank = 0; rank < 4; ++rank) {
      boards[rank] = {.rank = rank, .phase = WorkerPhase::kBackward, .step = 9, .steps_done = 9};
    }
  }

  /// Everybody is alive; ranks that `move` make progress.
  void Live(seconds span, const std::vector<int>& move = {}) {
    for (int second = 0; second < span.count(); ++second) {
      for (auto& [rank, board] : boards) {
        if (std::ranges::find(move, rank) != move.end()) {
          ++board.ticks;
          ++board.steps_done;
          board.steps_timed = 50;
        }
        Say(rank / 2 + 1, Boards{machine().epoch(), {board}});
      }
      Tick(seconds(1), 2);
    }
  }

  void GiveStacks(int node, const std::string& id) {
    Say(node,
        Stacks{machine().epoch(), id, {{2 * node - 2, "stack"}, {2 * node - 1, "stack"}}, false});
    Say(node, Stacks{machine().epoch(), id, {}, true});
  }

  void Hang() {
    boards[2].phase = WorkerPhase::kData;
    Live(seconds(125));
  }

  std::map<int, WorkerBoard> boards;
};

RunPolicy Policy(HangAction action, int restarts = 0) {
  RunPolicy policy;
  policy.hang.action = action;
  policy.restarts.max_restarts = restarts;
  return policy;
}

TEST(RunWatchTest, StacksAreCollectedOfAllNodesBeforeAnythingIsDone) {
  WatchScene scene(Policy(HangAction::kStop));
  scene.Hang();
  for (const int node : {1, 2}) {
    EXPECT_EQ(scene.Count<Control>(node), 1);
    EXPECT_EQ(scene.Last<Control>(node).request.kind, ControlRequest::Kind::kStacks);
    EXPECT_EQ(scene.Count<Watched>(node), 0);
    EXPECT_EQ(scene.Count<Stop>(node), 0);
  }
  const std::string id = scene.Last<Control>(1).request.id;
  scene.GiveStacks(1, id);
  scene.Tick(seconds(1), 2);
  EXPECT_EQ(scene.Count<Stop>(1), 0);
  scene.GiveStacks(2, id);
  scene.Tick(seconds(1), 2);
  const WatchReport report = scene.Last<Watched>(2).report;
  EXPECT_EQ(report.kind, Kind::kHang);
  EXPECT_EQ(report.id, id);
  EXPECT_THAT(report.ranks, ElementsAre(2));
  EXPECT_EQ(report.stacks.size(), 4U);
  EXPECT_EQ(report.stacks.front().rank, 2);
  EXPECT_THAT(report.text, AllOf(HasSubstr("rank 2 is behind"), HasSubstr("--hang-action=stop")));
  EXPECT_EQ(scene.Last<Stop>(2).order.reason, StopReason::kHang);
}

TEST(RunWatchTest, ANodeThatGivesNoStacksIsWaitedForTwentySeconds) {
  WatchScene scene(Policy(HangAction::kStop));
  scene.Hang();
  scene.GiveStacks(1, scene.Last<Control>(1).request.id);
  scene.Tick(seconds(14), 2);
  EXPECT_EQ(scene.Count<Stop>(1), 0);
  scene.Tick(seconds(8), 2);
  EXPECT_EQ(scene.Count<Stop>(1), 1);
  EXPECT_THAT(scene.Last<Watched>(1).report.text,
              HasSubstr("node 1 (host2) gave no stacks within 20 s"));
}

TEST(RunWatchTest, RanksThatMoveMeanwhileAreNoHang) {
  WatchScene scene(Policy(HangAction::kStop));
  scene.Hang();
  scene.Live(seconds(2), {0, 1, 2, 3});
  for (const int node : {1, 2}) {
    scene.GiveStacks(node, scene.Last<Control>(1).request.id);
  }
  scene.Tick(seconds(1), 2);
  EXPECT_EQ(scene.Last<Watched>(1).report.kind, Kind::kHangOver);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
}

void Report(WatchScene& scene) {
  scene.Hang();
  for (const int node : {1, 2}) {
    scene.GiveStacks(node, scene.Last<Control>(1).request.id);
  }
  scene.Tick(seconds(1), 2);
}

TEST(RunWatchTest, AReportIsMadeOnceAndTakenBackWhenTheRunMoves) {
  WatchScene scene(Policy(HangAction::kReport));
  Report(scene);
  EXPECT_EQ(scene.Last<Watched>(1).report.kind, Kind::kHang);
  scene.Live(seconds(150));
  EXPECT_EQ(scene.Count<Watched>(1), 1);
  scene.Live(seconds(2), {0, 1, 2, 3});
  EXPECT_EQ(scene.Last<Watched>(1).report.kind, Kind::kHangOver);
  EXPECT_THAT(scene.Last<Watched>(1).report.text, HasSubstr("the hang is over"));
  scene.Live(seconds(125));
  EXPECT_EQ(scene.Count<Control>(1), 2);  // the next one is seen as well
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
}

void EndStopped(WatchScene& scene) {
  for (int rank = 0; rank < 4; ++rank) {
    scene.End(rank / 2 + 1, rank, 143, true);
  }
  scene.Stop(1);
  scene.Stop(2);
}

TEST(RunWatchTest, AHangUsesARestartAndTheNextEpochStartsAnew) {
  WatchScene scene(Policy(HangAction::kAuto, 1));
  Report(scene);
  EndStopped(scene);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  EXPECT_THAT(scene.Last<Reforming>(2).ended.reason, HasSubstr("hang: no progress"));
  EXPECT_THAT(scene.Last<Reforming>(2).ended.next, HasSubstr("restart 1 of 1"));
  scene.Tick(seconds(2), 2);
  scene.ReserveAndAck(2);
  scene.Tick(seconds(200), 2);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);  // boards of epoch 1 are forgotten
  Report(scene);
  EXPECT_THAT(scene.Last<Watched>(1).report.text, HasSubstr("no restart is left"));
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
}

TEST(RunWatchTest, AStopIsFinalWhateverTheBudget) {
  WatchScene scene(Policy(HangAction::kStop, 5));
  Report(scene);
  EndStopped(scene);
  ASSERT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.outcome().exit_code, 1);
  EXPECT_THAT(scene.outcome().reason, HasSubstr("rank 2 is behind the others"));
  EXPECT_FALSE(scene.outcome().root_cause);
}

TEST(RunWatchTest, APauseOfTheHostIsNoHang) {
  WatchScene scene;
  scene.Live(seconds(60));
  scene.Pass(seconds(3600));
  scene.Live(seconds(50));
  EXPECT_EQ(scene.Count<Control>(1), 0);
}

TEST(RunWatchTest, BoardsOfForeignRanksAndOldEpochsAreIgnored) {
  WatchScene scene;
  for (int second = 0; second < 200; ++second) {
    scene.Say(2, Boards{scene.machine().epoch(), {{.rank = 0, .steps_done = 9}}});
    scene.Say(1, Boards{scene.machine().epoch() - 1, {{.rank = 0, .steps_done = 9}}});
    scene.Tick(seconds(1), 2);
  }
  EXPECT_EQ(scene.Count<Control>(1), 0);
}

TEST(RunWatchTest, StacksOnRequestAreAnsweredByTheSameId) {
  WatchScene scene;
  scene.Say(2, ControlAsk{{.kind = ControlRequest::Kind::kStacks, .id = "ask-1", .rank = 3}});
  EXPECT_EQ(scene.Last<Control>(1).request.rank, 3);
  scene.GiveStacks(1, "ask-1");
  scene.GiveStacks(2, "ask-1");
  scene.Tick(seconds(1), 2);
  const WatchReport report = scene.Last<Watched>(2).report;
  EXPECT_EQ(report.kind, Kind::kStacks);
  EXPECT_EQ(report.id, "ask-1");
  EXPECT_EQ(report.stacks.front().rank, 3);
  EXPECT_THAT(report.text, IsEmpty());
}

TEST(RunWatchTest, TooManyRequestsAreRefusedWithTheLimit) {
  WatchScene scene;
  for (int i = 0; i < 9; ++i) {
    scene.Say(1, ControlAsk{{ControlRequest::Kind::kStacks, "ask-" + std::to_string(i)}});
  }
  EXPECT_EQ(scene.Count<Control>(1), 8);
  EXPECT_THAT(scene.Last<Watched>(1).report.text, HasSubstr("8 requests are under way (limit 8)"));
}

TEST(RunWatchTest, AReportHoldsABoundedAmountOfStacksTheAbsentFirst) {
  WatchScene scene;
  scene.Say(1, ControlAsk{{.kind = ControlRequest::Kind::kStacks, .id = "big", .rank = 1}});
  const std::string text(40 << 10, 'x');
  for (int i = 0; i < 10; ++i) {
    scene.Say(1, Stacks{scene.machine().epoch(), "big", {{0, text}}, false});
  }
  scene.Say(1, Stacks{scene.machine().epoch(), "big", {{1, text}}, true});
  scene.Say(2, Stacks{scene.machine().epoch(), "big", {}, true});
  scene.Tick(seconds(1), 2);
  const WatchReport report = scene.Last<Watched>(1).report;
  EXPECT_EQ(report.stacks.size(), 6U);
  EXPECT_EQ(report.stacks.front().rank, 1);
  EXPECT_THAT(report.text, HasSubstr("stacks of 5 more ranks are in the run directories"));
}

TEST(RunWatchTest, StragglersAreToldEveryFiveMinutesAndOnRequest) {
  WatchScene scene;
  for (auto& [rank, board] : scene.boards) {
    board.step_median = milliseconds(100);
    board.phase_total.assign(kWorkerPhases, std::chrono::microseconds(0));
  }
  for (int second = 0; second < 290; ++second) {
    for (auto& [rank, board] : scene.boards) {
      board.phase_total[static_cast<size_t>(WorkerPhase::kData)] +=
          milliseconds(rank == 3 ? 60 : 20);
    }
    scene.Live(seconds(1), {0, 1, 2, 3});
  }
  EXPECT_EQ(scene.Count<Watched>(1), 0);
  scene.Say(2, ControlAsk{{ControlRequest::Kind::kStragglers, "ask"}});
  EXPECT_EQ(scene.Last<Watched>(2).report.id, "ask");
  EXPECT_THAT(scene.Last<Watched>(2).report.ranks, ElementsAre(3));
  scene.Live(seconds(15), {0, 1, 2, 3});
  EXPECT_EQ(scene.Count<Watched>(1), 2);
  EXPECT_THAT(scene.Last<Watched>(1).report.text, HasSubstr("rank 3 (node 1, host2): 0.3"));
}

}  // namespace
}  // namespace lr::launcher::testing
