// Runs of several epochs: failures, losses and the restarts after them (spec 4.5).
#include <csignal>

#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

RunPolicy Restarts(int most) {
  RunPolicy policy;
  policy.restarts.max_restarts = most;
  return policy;
}

TEST(RunRestartTest, AFailedEpochIsFormedAgainWithAllNodesTogether) {
  RunScene scene(2, true, Restarts(2));
  scene.RunAll(2);
  scene.FailEpoch(2, 3, 42);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  for (const int node : {1, 2}) {
    const Reforming reforming = scene.Last<Reforming>(node);
    EXPECT_EQ(reforming.epoch, 1);
    EXPECT_EQ(reforming.ended.exit_code, 42);
    ASSERT_TRUE(reforming.ended.root_cause);
    EXPECT_EQ(reforming.ended.root_cause->rank, 3);
    EXPECT_THAT(reforming.ended.next, HasSubstr("restart 1 of 2 in"));
  }
  EXPECT_THAT(scene.machine().WaitingFor(), HasSubstr("the pause before the next start"));
  scene.Tick(milliseconds(700), 2);
  EXPECT_EQ(scene.Count<Reserve>(1), 1);  // at least 0.75 s
  scene.Tick(milliseconds(600), 2);
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  EXPECT_EQ(scene.Last<Reserve>(1).epoch, 2);
  scene.ReserveAndAck(2);
  const Assignment assignment = scene.Last<Assign>(2).assignment;
  EXPECT_EQ(assignment.epoch, 2);
  EXPECT_EQ(assignment.attempt, 1);
  EXPECT_EQ(assignment.restart_count, 1);
  EXPECT_EQ(scene.Last<Go>(2).epoch, 2);
}

TEST(RunRestartTest, NobodyStartsWhileWorkersOfTheOldEpochLive) {
  RunScene scene(2, true, Restarts(2));
  scene.RunAll(2);
  scene.End(2, 3, 1);
  scene.Stop(2);
  scene.Tick(seconds(20), 2);
  EXPECT_EQ(scene.machine().state(), RunState::kStopping);
  EXPECT_THAT(scene.machine().WaitingFor(), HasSubstr("node 0 (host1)"));
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
}

TEST(RunRestartTest, ANodeThatNeverStopsIsLost) {
  RunScene scene(2, true, Restarts(2));
  scene.RunAll(2);
  scene.End(1, 0, 1);
  scene.Stop(1);
  scene.Tick(seconds(89), 2);
  EXPECT_EQ(scene.machine().state(), RunState::kStopping);
  scene.Tick(seconds(2), 2);
  EXPECT_THAT(scene.dropped().at(2), HasSubstr("not gone 90 s after the stop"));
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.outcome().exit_code, 1);
  EXPECT_THAT(scene.outcome().next, HasSubstr("1 of at least 2 nodes are left"));
}

TEST(RunRestartTest, TheLastFailureGivesTheCodeOnceTheBudgetIsSpent) {
  RunScene scene(2, true, Restarts(1));
  scene.RunAll(2);
  scene.FailEpoch(2, 0, 5);
  scene.Tick(seconds(2), 2);
  scene.ReserveAndAck(2);
  scene.FailEpoch(2, 1, 42);
  ASSERT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.Last<Closed>(2).outcome.exit_code, 42);
  EXPECT_THAT(scene.Last<Closed>(2).outcome.next, HasSubstr("all 1 are used"));
}

TEST(RunRestartTest, TheSameEarlyFailureTwiceEndsWith93) {
  RunScene scene(1, false, Restarts(5));
  scene.RunAll(1);
  scene.FailEpoch(1, 1, 9, seconds(3));
  scene.Tick(seconds(2));
  scene.ReserveAndAck(1);
  scene.FailEpoch(1, 1, 9, seconds(3));
  ASSERT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.outcome().exit_code, 93);
  EXPECT_EQ(scene.outcome().root_cause->exit_code, 9);
  EXPECT_THAT(scene.outcome().next, HasSubstr("twice in a row"));
}

TEST(RunRestartTest, ProgressOfAllNodesCounts) {
  RunScene scene(2, true, Restarts(9));
  scene.RunAll(2);
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(scene.machine().state(), RunState::kRunning);
    scene.Say(2, Progress{scene.machine().epoch(), {50, 40}});
    scene.Say(1, Progress{scene.machine().epoch(), {49, 40}});
    scene.FailEpoch(2, 0, 1);
    scene.Tick(seconds(6), 2);
    scene.ReserveAndAck(2);
  }
  scene.Say(2, Progress{scene.machine().epoch(), {50, 40}});
  scene.FailEpoch(2, 0, 1);
  EXPECT_EQ(scene.outcome().exit_code, 93);
  EXPECT_THAT(scene.outcome().next, HasSubstr("no further than step 50"));
}

TEST(RunRestartTest, RanksAndOrderStayTheSame) {
  RunScene scene(3, false, Restarts(1));
  for (const int node : {1, 2, 3}) {
    scene.Join(node, MakeNode("node" + std::to_string(12 - node)), node == 2);
  }
  scene.Say(2, Reserved{1, "a", 1, ""});
  for (const int node : {1, 2, 3}) {
    scene.Say(node, Ack{1, ""});
  }
  const auto hosts = [&] {
    std::vector<std::string> names;
    for (const NodeAssignment& node : scene.Last<Assign>(1).assignment.nodes) {
      names.push_back(node.host_name);
    }
    return names;
  };
  const std::vector<std::string> before = hosts();
  EXPECT_THAT(before, ::testing::ElementsAre("node10", "node9", "node11"));
  scene.Say(2, Ended{1, scene.Ending(0, 1)});
  for (const int node : {1, 2, 3}) {
    scene.Stop(node);
  }
  scene.Tick(seconds(2), 3);
  scene.Say(2, Reserved{2, "a", 2, ""});
  EXPECT_EQ(hosts(), before);
}

TEST(RunRestartTest, ASignalInThePauseEndsTheRunForAll) {
  RunScene scene(2, true, Restarts(2));
  scene.RunAll(2);
  scene.FailEpoch(2, 3, 42);
  scene.Say(2, StopRequest{{StopReason::kSignal, "SIGTERM on host2", SIGTERM}});
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.Last<Refused>(1).exit_code, 143);
  EXPECT_THAT(scene.Last<Refused>(1).text, HasSubstr("SIGTERM on host2"));
}

TEST(RunRestartTest, ASignalWhileAFailedEpochStopsForbidsTheRestart) {
  RunScene scene(1, false, Restarts(2));
  scene.RunAll(1);
  scene.End(1, 0, 7);
  scene.Say(1, StopRequest{{StopReason::kSignal, "SIGINT on host1", SIGINT}});
  scene.End(1, 1, 1, true);
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.outcome().exit_code, 7);
}

TEST(RunRestartTest, ALossBelowTheMinimumEndsTheRunAlsoInThePause) {
  RunScene scene(2, true, Restarts(2));
  scene.RunAll(2);
  scene.FailEpoch(2, 3, 42);
  scene.Lose(2);
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.Last<Refused>(1).exit_code, 75);
  EXPECT_THAT(scene.Last<Refused>(1).text, HasSubstr("1 of 2 nodes are left"));
}

TEST(RunRestartTest, ABudgetOfNodeLossesWaitsForAnotherNode) {
  RunPolicy policy;
  policy.restarts.max_node_losses = 1;
  RunScene scene(2, true, policy);
  scene.RunAll(2);
  scene.Lose(2);
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  EXPECT_THAT(scene.machine().WaitingFor(), HasSubstr("waiting for 1 of 2 nodes (node rank 1)"));
  scene.Join(3, MakeNode("replacement", 1));
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  scene.Say(1, Reserved{2, "a", 1, ""});
  scene.Say(1, Ack{2, ""});
  scene.Say(3, Ack{2, ""});
  EXPECT_EQ(scene.Last<Assign>(3).assignment.attempt, 1);
  EXPECT_EQ(scene.Last<Assign>(3).assignment.restart_count, 0);
  EXPECT_EQ(scene.Last<Go>(3).epoch, 2);
  EXPECT_THAT(scene.notes(), Contains(AllOf(HasSubstr("epoch 1"), HasSubstr("uses no restart"))));
}

TEST(RunRestartTest, ASuccessAfterRestartsIsFinal) {
  RunScene scene(1, false, Restarts(3));
  scene.RunAll(1);
  scene.FailEpoch(1, 0, 1);
  scene.Tick(seconds(2));
  scene.ReserveAndAck(1);
  scene.End(1, 0);
  scene.End(1, 1);
  scene.Stop(1);
  EXPECT_TRUE(scene.outcome().succeeded);
  scene.Say(1, StopRequest{{StopReason::kSignal, "late", SIGTERM}});
  scene.Lose(1);
  EXPECT_TRUE(scene.outcome().succeeded);
  EXPECT_EQ(scene.Count<Go>(1), 2);
}

}  // namespace
}  // namespace lr::launcher::testing
