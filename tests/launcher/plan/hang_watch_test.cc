#include "launcher/plan/hang_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Kind = HangVerdict::Kind;

/// Four ranks on two nodes that report once a second.
class Scene {
 public:
  explicit Scene(HangRules rules = {}) : watch(rules) {
    Assignment assignment;
    assignment.nodes = {{.node_id = "a",
                         .host_name = "gpu00",
                         .address = "",
                         .node_rank = 0,
                         .local_size = 2,
                         .first_rank = 0},
                        {.node_id = "b",
                         .host_name = "gpu07",
                         .address = "",
                         .node_rank = 1,
                         .local_size = 2,
                         .first_rank = 2}};
    watch.Begin(assignment, now);
    for (int rank = 0; rank < 4; ++rank) {
      boards[rank] = {
          .rank = rank, .phase = WorkerPhase::kBackward, .step = 5, .ticks = 1, .steps_done = 5};
    }
  }

  /// Signs of life without progress, but for the ranks that `move`.
  void Pass(std::chrono::nanoseconds span, const std::vector<int>& move = {}) {
    for (const auto end = now + span; now < end; now += seconds(1)) {
      for (auto& [rank, board] : boards) {
        board.ticks += std::ranges::find(move, rank) != move.end() ? 1 : 0;
        watch.Update(board, now);
      }
    }
  }

  HangVerdict Judge() const { return watch.Judge(now, false); }

  void Enter(int rank,
             int64_t number,
             const std::string& operation = "all-reduce",
             int64_t bytes = 4096) {
    boards[rank].collectives = {{"data", number, operation, bytes}};
  }

  HangWatch watch;
  HangWatch::Instant now{seconds(1000)};
  std::map<int, WorkerBoard> boards;
};

// ---- limits

TEST(HangLimitTest, TheFirstStepHasItsOwnInEveryPhase) {
  for (int phase = 0; phase < kWorkerPhases; ++phase) {
    const HangLimit limit = LimitOf({.phase = static_cast<WorkerPhase>(phase)}, {});
    EXPECT_EQ(limit.span, minutes(60));
    EXPECT_EQ(limit.reason, "for the first step");
  }
}

TEST(HangLimitTest, AfterwardsItGrowsWithTheSteps) {
  WorkerBoard board{.phase = WorkerPhase::kData, .steps_done = 1, .step_longest = seconds(24)};
  EXPECT_EQ(LimitOf(board, {}).span, seconds(120));
  EXPECT_EQ(LimitOf(board, {}).reason, "--hang-timeout");
  board.step_longest = seconds(31);
  EXPECT_EQ(LimitOf(board, {}).span, seconds(155));
  EXPECT_EQ(LimitOf(board, {}).reason, "5 x the longest of the last steps, 31 s");
  EXPECT_EQ(LimitOf(board, {.shortest = seconds(200)}).span, seconds(200));
}

TEST(HangLimitTest, CheckpointsHaveTheirOwn) {
  WorkerBoard board{
      .phase = WorkerPhase::kCheckpoint, .steps_done = 9, .step_longest = minutes(20)};
  EXPECT_EQ(LimitOf(board, {}).span, minutes(30));
  board.last_save = minutes(12);
  EXPECT_EQ(LimitOf(board, {}).span, minutes(36));
  EXPECT_EQ(LimitOf(board, {}).reason, "3 x the last save, 720 s");
  EXPECT_EQ(LimitOf(board, {.checkpoint = minutes(50)}).span, minutes(50));
}

// ---- what is no hang

TEST(HangWatchTest, ProgressIsNone) {
  Scene scene;
  scene.Pass(minutes(10), {0, 1, 2, 3});
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
}

TEST(HangWatchTest, StandingStillUpToTheLimitIsNone) {
  Scene scene;
  scene.Pass(seconds(121));  // the first board came at second 0
  EXPECT_EQ(scene.Judge().kind, Kind::kSuspicion);
  Scene shorter;
  shorter.Pass(seconds(120));
  EXPECT_EQ(shorter.Judge().kind, Kind::kNone);
}

TEST(HangWatchTest, ASlowStepIsNoneWhenStepsAreSlow) {
  Scene scene;
  for (auto& [rank, board] : scene.boards) {
    board.step_longest = seconds(100);
  }
  scene.Pass(seconds(499));
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
  scene.Pass(seconds(3));
  EXPECT_EQ(scene.Judge().kind, Kind::kSuspicion);
}

TEST(HangWatchTest, ALongFirstStepIsNone) {
  Scene scene;
  for (auto& [rank, board] : scene.boards) {
    board.steps_done = 0;
  }
  scene.Pass(minutes(59));
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
  scene.Pass(minutes(2));
  EXPECT_EQ(scene.Judge().kind, Kind::kSuspicion);
}

TEST(HangWatchTest, ASaveIsNoneAlsoForThoseThatWaitForIt) {
  Scene scene;
  scene.boards[0].phase = WorkerPhase::kCheckpoint;
  for (const int rank : {1, 2, 3}) {
    scene.boards[rank].phase = WorkerPhase::kData;  // behind the checkpoint in the order of a step
  }
  scene.Pass(minutes(29));
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
  scene.Pass(minutes(2));
  EXPECT_THAT(scene.Judge().absent, ElementsAre(0));
}

TEST(HangWatchTest, WaitingForARankThatMovesIsNone) {
  Scene scene;
  scene.boards[2].phase = WorkerPhase::kData;
  scene.Pass(minutes(10), {2});
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
}

TEST(HangWatchTest, AnEvaluationThatSaysSoForEveryBatchIsNone) {
  Scene scene;
  for (auto& [rank, board] : scene.boards) {
    board.phase = WorkerPhase::kEval;
  }
  scene.Pass(minutes(60), {0, 1, 2, 3});
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
}

TEST(HangWatchTest, TimeInWhichEverythingStoodStillDoesNotCount) {
  Scene scene;
  scene.Pass(seconds(60));
  scene.now += minutes(30);
  scene.watch.Pause(minutes(30));
  scene.Pass(seconds(59));
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
  scene.Pass(seconds(3));
  EXPECT_EQ(scene.Judge().kind, Kind::kSuspicion);
}

TEST(HangWatchTest, RanksThatSaidGoodbyeOrEndedAreNone) {
  Scene scene;
  for (auto& [rank, board] : scene.boards) {
    board.left = true;
  }
  scene.Pass(minutes(10));
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
  Scene ended;
  ended.Pass(minutes(10));
  for (int rank = 0; rank < 4; ++rank) {
    ended.watch.Ended(rank, "exit code 0");
  }
  EXPECT_EQ(ended.Judge().kind, Kind::kNone);
}

TEST(HangWatchTest, NobodyWhoReportsIsNone) {
  Scene scene;
  scene.now += minutes(600);
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
}

TEST(HangWatchTest, SwitchedOffIsNone) {
  Scene scene({.on = false});
  scene.Pass(minutes(600));
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
}

TEST(HangWatchTest, ANewEpochForgetsTheOldOne) {
  Scene scene;
  scene.Pass(minutes(10));
  scene.watch.Begin({}, scene.now);
  EXPECT_EQ(scene.Judge().kind, Kind::kNone);
}

// ---- what is one

TEST(HangWatchTest, TheSecondVerdictIsTheHang) {
  Scene scene;
  scene.Pass(minutes(3));
  const auto asked = scene.now;
  EXPECT_EQ(scene.watch.Judge(scene.now, false).kind, Kind::kSuspicion);
  EXPECT_EQ(scene.watch.Judge(scene.now, true).kind, Kind::kHang);
  EXPECT_FALSE(scene.watch.MovedSince(asked));
  scene.now += seconds(1);
  scene.Pass(seconds(1), {1});
  EXPECT_TRUE(scene.watch.MovedSince(asked));
}

TEST(HangWatchTest, ARankBehindIsNamedWithNodePhaseAndLimit) {
  Scene scene({.shortest = seconds(2)});
  scene.boards[2].phase = WorkerPhase::kData;
  scene.Pass(seconds(4));
  const HangVerdict verdict = scene.Judge();
  EXPECT_THAT(verdict.absent, ElementsAre(2));
  EXPECT_EQ(verdict.text,
            "no progress of ranks 0-3 for 4.0 s (limit 2 s: --hang-timeout): rank 2 is behind the "
            "others, at step 5 in phase data");
  EXPECT_EQ(verdict.places.front(), "rank 2 (node 1, gpu07): step 5, phase data for 4.0 s");
  EXPECT_EQ(verdict.places.size(), 4U);
}

TEST(HangWatchTest, AnEarlierStepIsBehindWhateverThePhase) {
  Scene scene;
  scene.boards[3].step = 4;
  scene.boards[3].phase = WorkerPhase::kOptimizer;
  scene.Pass(minutes(3));
  EXPECT_THAT(scene.Judge().absent, ElementsAre(3));
}

TEST(HangWatchTest, TheOrderOfAStepDecidesWhoIsBehind) {
  const std::vector<WorkerPhase> order = {WorkerPhase::kInit,
                                          WorkerPhase::kIdle,
                                          WorkerPhase::kEval,
                                          WorkerPhase::kCheckpoint,
                                          WorkerPhase::kData,
                                          WorkerPhase::kForward,
                                          WorkerPhase::kBackward,
                                          WorkerPhase::kReduce,
                                          WorkerPhase::kOptimizer};
  ASSERT_EQ(order.size(), static_cast<size_t>(kWorkerPhases));
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    Scene scene;
    for (auto& [rank, board] : scene.boards) {
      board.phase = rank == 1 ? order[i] : order[i + 1];
    }
    scene.Pass(minutes(40));
    EXPECT_THAT(scene.Judge().absent, ElementsAre(1)) << i;
  }
}

TEST(HangWatchTest, EqualPlacesLeaveItOpen) {
  Scene scene;
  scene.Pass(minutes(3));
  EXPECT_THAT(scene.Judge().absent, IsEmpty());
  EXPECT_THAT(scene.Judge().text, HasSubstr("nobody is behind the others"));
}

TEST(HangWatchTest, OneThatLeftOrNeverCameIsNamed) {
  Scene scene;
  scene.boards.erase(3);
  scene.Pass(minutes(3));
  scene.watch.Ended(1, "exit code 0");
  const HangVerdict verdict = scene.Judge();
  EXPECT_THAT(verdict.absent, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("no progress of ranks 0,2"));
  EXPECT_THAT(verdict.text, HasSubstr("rank 1 ended, rank 3 never reported"));
  EXPECT_THAT(verdict.places.front(), HasSubstr("rank 1 (node 0, gpu00): ended with exit code 0"));
}

TEST(HangWatchTest, ARankThatIsNotHeardIsJudgedByItsLastWord) {
  Scene scene;
  scene.boards[2].phase = WorkerPhase::kForward;
  scene.Pass(seconds(1));
  scene.boards.erase(2);
  scene.Pass(minutes(3));
  const HangVerdict verdict = scene.Judge();
  EXPECT_THAT(verdict.absent, ElementsAre(2));
  EXPECT_THAT(verdict.places.front(), HasSubstr("not heard for 18"));
}

// ---- collectives

TEST(HangWatchTest, WhoDidNotEnterACollectiveIsAbsent) {
  Scene scene;
  for (const int rank : {0, 1, 3}) {
    scene.Enter(rank, 7);
  }
  scene.Enter(2, 6);  // the phases are equal: only the numbers tell
  scene.Pass(minutes(3));
  const HangVerdict verdict = scene.Judge();
  EXPECT_THAT(verdict.absent, ElementsAre(2));
  EXPECT_THAT(verdict.text,
              HasSubstr("rank 2 is absent from all-reduce #7 of group data (4.0 KiB), which ranks "
                        "0-1,3 entered"));
  EXPECT_THAT(verdict.places.front(), HasSubstr("all-reduce #6 of group data"));
}

TEST(HangWatchTest, SeveralAbsentRanks) {
  Scene scene;
  scene.Enter(0, 7);
  for (const int rank : {1, 2, 3}) {
    scene.Enter(rank, 5 + rank % 2);
  }
  scene.Pass(minutes(3));
  EXPECT_THAT(scene.Judge().absent, ElementsAre(1, 2, 3));
  EXPECT_THAT(scene.Judge().text, HasSubstr("ranks 1-3 are absent from"));
}

TEST(HangWatchTest, GroupsAreComparedOneByOne) {
  Scene scene;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string group = rank < 2 ? "shard 0" : "shard 1";
    scene.boards[rank].collectives = {{"world", 3},
                                      {group, rank == 3 ? 8 : 9 - 4 * (rank < 2 ? 1 : 0)}};
  }
  scene.Pass(minutes(3));
  EXPECT_THAT(scene.Judge().absent, ElementsAre(3));
  EXPECT_THAT(
      scene.Judge().text,
      HasSubstr("rank 3 is absent from collective #9 of group shard 1, which rank 2 entered"));
}

TEST(HangWatchTest, DifferentOperationsAtOneNumberAreAMismatch) {
  for (const bool size : {false, true}) {
    Scene scene;
    for (int rank = 0; rank < 4; ++rank) {
      const bool other = rank == 3;
      scene.Enter(
          rank, 7, other && !size ? "broadcast" : "all-reduce", other && size ? 8 << 20 : 4096);
    }
    scene.Pass(minutes(3));
    EXPECT_THAT(scene.Judge().absent, IsEmpty());
    EXPECT_THAT(scene.Judge().text,
                AllOf(HasSubstr("the ranks do not do the same: rank 0 entered all-reduce #7 of "
                                "group data (4.0 KiB), rank 3 "),
                      HasSubstr(size ? "all-reduce #7 of group data (8.0 MiB)" : "broadcast #7")));
  }
}

TEST(HangWatchTest, EqualNumbersSayNothingSoThePlaceDecides) {
  Scene scene;
  for (int rank = 0; rank < 4; ++rank) {
    scene.Enter(rank, 7);
  }
  scene.boards[1].phase = WorkerPhase::kData;
  scene.Pass(minutes(3));
  EXPECT_THAT(scene.Judge().absent, ElementsAre(1));
  EXPECT_THAT(scene.Judge().text, Not(HasSubstr("absent from")));
}

TEST(HangWatchTest, ManyRanksAreToldInBoundedWords) {
  HangWatch watch({});
  for (int rank = 0; rank < 1000; ++rank) {
    watch.Update(
        {.rank = rank, .phase = WorkerPhase::kData, .step = rank == 500 ? 1 : 2, .steps_done = 9},
        seconds(0));
  }
  const HangVerdict verdict = watch.Judge(minutes(3), false);
  EXPECT_EQ(verdict.places.size(), 17U);
  EXPECT_THAT(verdict.places.front(), HasSubstr("rank 500 "));
  EXPECT_EQ(verdict.places.back(), "and 984 more ranks");
}

// ---- what follows

TEST(HangDecisionTest, FollowsTheOptionAndTheBudget) {
  EXPECT_EQ(DecideHang(HangAction::kAuto, 1).action, HangAction::kRestart);
  EXPECT_EQ(DecideHang(HangAction::kAuto, 0).action, HangAction::kReport);
  EXPECT_THAT(DecideHang(HangAction::kAuto, 0).reason, HasSubstr("--max-restarts"));
  for (const HangAction action : {HangAction::kReport, HangAction::kRestart, HangAction::kStop}) {
    EXPECT_EQ(DecideHang(action, 0).action, action);
    EXPECT_EQ(DecideHang(action, 3).action, action);
    EXPECT_THAT(DecideHang(action, 3).reason, HasSubstr(HangActionName(action)));
  }
}

}  // namespace
}  // namespace lr::launcher
