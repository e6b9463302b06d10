// The run of all nodes, story by story (spec 3.4).
#include "launcher/rendezvous/run_machine.h"

#include <csignal>

#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- joining

TEST(RunMachineTest, NobodyStartsBeforeEverybodyAccepted) {
  RunScene scene(3);
  EXPECT_EQ(scene.machine().state(), RunState::kOpen);
  scene.JoinAll(2);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  EXPECT_THAT(scene.Last<Waiting>(2).text,
              AllOf(HasSubstr("waiting for 1 of 3 nodes (node rank 2)"),
                    HasSubstr("here: host1 (pid 100), host2 (pid 100)"),
                    HasSubstr("600 s left")));
  scene.Join(3, MakeNode("host3", 2));
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  EXPECT_EQ(scene.Count<Reserve>(1), 1);
  EXPECT_EQ(scene.Count<Reserve>(2), 0);
  EXPECT_EQ(scene.Count<Assign>(2), 0);
  scene.Say(1, Reserved{1, "10.0.0.1", 4000, ""});
  const Assignment assignment = scene.Last<Assign>(3).assignment;
  EXPECT_EQ(assignment.epoch, 1);
  EXPECT_EQ(assignment.world_size, 6);
  EXPECT_EQ(assignment.master_addr, "10.0.0.1");
  EXPECT_EQ(assignment.master_port, 4000);
  ASSERT_EQ(assignment.nodes.size(), 3);
  EXPECT_EQ(assignment.nodes[2].host_name, "host3");
  EXPECT_EQ(assignment.nodes[2].first_rank, 4);
  scene.Say(1, Ack{1, ""});
  scene.Say(3, Ack{1, ""});
  EXPECT_EQ(scene.Count<Go>(1), 0);
  EXPECT_THAT(scene.machine().WaitingFor(), HasSubstr("acceptance of epoch 1 by node 1 (host2)"));
  scene.Say(2, Ack{1, ""});
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  for (const int node : {1, 2, 3}) {
    EXPECT_EQ(scene.Last<Go>(node).epoch, 1);
  }
}

TEST(RunMachineTest, RanksFollowNodeRankWhateverTheArrival) {
  RunScene scene(2, true);
  scene.Join(7, MakeNode("late", 1));
  scene.Join(8, MakeNode("first", 0), true);
  EXPECT_EQ(scene.Count<Reserve>(8), 1);
  scene.Say(8, Reserved{1, "a", 1, ""});
  EXPECT_EQ(scene.Last<Assign>(7).assignment.nodes[0].host_name, "first");
}

TEST(RunMachineTest, UnusableRanksAreIgnoredAloudWhereTheyDoNotBind) {
  RunScene scene(2, false);
  scene.Join(1, MakeNode("a", 0), true);
  scene.Join(2, MakeNode("b", 0));
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  EXPECT_THAT(scene.Last<Waiting>(2).text, HasSubstr("explicit node ranks"));
}

TEST(RunMachineTest, ARefusalNamesBothHostsAndDisturbsNobody) {
  RunScene scene(3, true);
  scene.JoinAll(2);
  scene.Join(9, MakeNode("other", 1));
  const Refused refused = scene.Last<Refused>(9);
  EXPECT_EQ(refused.code, RefusalCode::kDuplicateRank);
  EXPECT_EQ(refused.exit_code, 76);
  EXPECT_THAT(refused.text,
              AllOf(HasSubstr("host2"), HasSubstr("other"), HasSubstr("node rank 1")));
  EXPECT_TRUE(scene.dropped().contains(9));
  scene.Join(3, MakeNode("host3", 2));
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
}

TEST(RunMachineTest, ALateNodeOfAFullRunIsToldSo) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.Tick(seconds(3));
  scene.Join(5, MakeNode("late"));
  const Refused refused = scene.Last<Refused>(5);
  EXPECT_EQ(refused.code, RefusalCode::kFull);
  EXPECT_EQ(refused.exit_code, 76);
  EXPECT_THAT(refused.text,
              AllOf(HasSubstr("2 of 2 nodes since 3 s (epoch 1)"), HasSubstr("late")));
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
}

TEST(RunMachineTest, AStrangerAtARunningRunIsToldThatItIsTheWrongOne) {
  RunScene scene(1);
  scene.RunAll(1);
  NodeIdentity stranger = MakeNode("late");
  stranger.run_id = "another";
  scene.Join(5, stranger);
  EXPECT_EQ(scene.Last<Refused>(5).code, RefusalCode::kWrongRun);
}

TEST(RunMachineTest, AfterTheEndTheOutcomeIsTold) {
  RunScene scene(1);
  scene.RunAll(1);
  scene.End(1, 0);
  scene.End(1, 1);
  scene.Stop(1);
  scene.Join(5, MakeNode("late"));
  EXPECT_EQ(scene.Last<Refused>(5).code, RefusalCode::kClosed);
  EXPECT_THAT(scene.Last<Refused>(5).text, HasSubstr("all 2 ranks exited 0"));
  NodeIdentity stranger = MakeNode("other");  // its own host may be at the next port
  stranger.run_id = "another";
  scene.Join(6, stranger);
  EXPECT_EQ(scene.Last<Refused>(6).code, RefusalCode::kWrongRun);
}

TEST(RunMachineTest, TheJoinTimesOutSayingWhoIsMissing) {
  RunScene scene(3, true);
  scene.JoinAll(2);
  for (int second = 0; second < 599; ++second) {
    EXPECT_EQ(scene.Count<Waiting>(1), 1 + second / 30);
    scene.Tick(seconds(1));
    scene.Say(2, Beat{});
  }
  EXPECT_EQ(scene.Count<Waiting>(1), 20);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  scene.Tick(seconds(1));
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  const Refused refused = scene.Last<Refused>(2);
  EXPECT_EQ(refused.code, RefusalCode::kJoinTimeout);
  EXPECT_EQ(refused.exit_code, 75);
  EXPECT_THAT(
      refused.text,
      AllOf(HasSubstr("600 s (join_timeout)"), HasSubstr("(node rank 2)"), HasSubstr("host1")));
}

TEST(RunMachineTest, ANodeThatLeavesTheJoinMakesRoom) {
  RunScene scene(2, true);
  scene.JoinAll(1);
  scene.Join(4, MakeNode("changed-its-mind", 1));
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  scene.Say(4, Bye{"SIGINT"});
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  EXPECT_THAT(scene.Last<Waiting>(1).text,
              AllOf(HasSubstr("changed-its-mind"), HasSubstr("it left (SIGINT)")));
  scene.Join(5, MakeNode("other", 1));
  scene.ReserveAndAck(1);
  scene.Say(5, Ack{2, ""});
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  EXPECT_EQ(scene.Last<Go>(5).epoch, 2);
}

TEST(RunMachineTest, WhenTheServingNodeLeavesTheJoinIsOverForAll) {
  RunScene scene(3);
  scene.JoinAll(2);
  scene.Say(1, Bye{"SIGTERM"});
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.Last<Refused>(2).code, RefusalCode::kHostLeft);
  EXPECT_EQ(scene.Last<Refused>(2).exit_code, 75);
}

// ---- committing

TEST(RunMachineTest, ASilentMemberIsDroppedAndTheEpochFormedAnew) {
  RunScene scene(2);
  scene.JoinAll(2);
  scene.Say(1, Reserved{1, "a", 1, ""});
  scene.Say(1, Ack{1, ""});
  scene.Tick(seconds(9));
  scene.Say(2, Beat{});
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  scene.Tick(seconds(1));
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  EXPECT_THAT(scene.Last<Refused>(2).text, HasSubstr("within 10 s"));
  EXPECT_TRUE(scene.dropped().contains(2));
  EXPECT_EQ(scene.Count<Go>(1), 0);
}

TEST(RunMachineTest, AnAnswerOfAnOlderEpochDoesNotCount) {
  RunScene scene(2);
  scene.JoinAll(2);
  scene.ReserveAndAck(1);
  scene.Lose(2);
  scene.Join(3, MakeNode("host3", 1));
  ASSERT_EQ(scene.machine().epoch(), 2);
  scene.Say(1, Reserved{1, "old", 1, ""});
  EXPECT_EQ(scene.Count<Assign>(3), 0);
  scene.Say(1, Reserved{2, "new", 2, ""});
  scene.Say(1, Ack{1, ""});
  scene.Say(3, Ack{2, ""});
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  scene.Say(1, Ack{2, ""});
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
}

TEST(RunMachineTest, OnlyRankZeroNamesTheEndpoint) {
  RunScene scene(2);
  scene.JoinAll(2);
  scene.Say(2, Reserved{1, "mine", 1, ""});
  EXPECT_EQ(scene.Count<Assign>(1), 0);
  scene.Say(2, Ack{1, ""});
  scene.ReserveAndAck(1);
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);  // the early word did not count
}

TEST(RunMachineTest, ABusyPortEndsTheRunBeforeAnyWorkerForEverybody) {
  RunScene scene(2);
  scene.JoinAll(2);
  scene.Say(1, Reserved{1, "", 0, "port 29500 is in use by pid 7 (python3)"});
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  for (const int node : {1, 2}) {
    EXPECT_EQ(scene.Last<Refused>(node).exit_code, 76);
    EXPECT_THAT(scene.Last<Refused>(node).text,
                AllOf(HasSubstr("node 0 (host1)"), HasSubstr("pid 7 (python3)")));
  }
}

TEST(RunMachineTest, EveryNodeThatCannotReachRankZeroIsNamedAtOnce) {
  RunScene scene(3);
  scene.JoinAll(3);
  scene.Say(1, Reserved{1, "10.9.9.9", 4000, ""});
  scene.Say(1, Ack{1, ""});
  scene.Say(2, Ack{1, "cannot reach it: no route"});
  scene.Say(3, Ack{1, "gets no answer within 3 s"});
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.Count<Go>(1), 0);
  EXPECT_THAT(scene.Last<Refused>(1).text,
              AllOf(HasSubstr("2 of 3 nodes cannot reach rank 0's node at 10.9.9.9 port 4000"),
                    HasSubstr("node 1 (host2) cannot reach it: no route"),
                    HasSubstr("node 2 (host3) gets no answer within 3 s"),
                    HasSubstr("--local-addr")));
}

// ---- running

TEST(RunMachineTest, AnotherAddressOfRankZeroIsTriedWhereOneFailsAndTheFirstForAllIsTaken) {
  RunScene scene(3);
  scene.JoinAll(3);
  scene.Say(1, Reserved{1, "10.0.0.1", 4000, "", {"10.0.0.2", "10.0.0.3", "10.0.0.4"}});
  const auto answer = [&](const std::string& address, const std::string& problem) {
    for (int node = 1; node <= 3; ++node) {
      EXPECT_EQ(scene.Last<Assign>(node).assignment.master_addr, address);
      EXPECT_EQ(scene.Last<Assign>(node).assignment.nodes.front().address, address);
      scene.Say(node, Ack{1, node == 3 ? problem : "", address});
    }
  };
  answer("10.0.0.1", "no route");
  scene.Say(2, Ack{1, "late news of the first", "10.0.0.1"});
  answer("10.0.0.2", "no answer");
  EXPECT_EQ(scene.Count<Go>(1), 0);
  answer("10.0.0.3", "");
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  EXPECT_EQ(scene.Count<Go>(3), 1);
  EXPECT_THAT(scene.notes(),
              Contains(AllOf(HasSubstr("the workers meet at 10.0.0.3, because"),
                             HasSubstr("1 of 3 nodes cannot reach rank 0's node at 10.0.0.1"),
                             HasSubstr("node 2 (host3) no answer"))));
}

TEST(RunMachineTest, WhenNoAddressServesAllTheWholeMatrixIsTold) {
  RunScene scene(2);
  scene.JoinAll(2);
  scene.Say(1, Reserved{1, "10.0.0.1", 4000, "", {"10.0.0.2"}});
  for (const char* address : {"10.0.0.1", "10.0.0.2"}) {
    scene.Say(1, Ack{1, "", address});
    scene.Say(2, Ack{1, "no route", address});
  }
  EXPECT_EQ(scene.Last<Refused>(2).code, RefusalCode::kUnreachable);
  EXPECT_THAT(scene.Last<Refused>(2).text,
              AllOf(HasSubstr("at 10.0.0.1 port 4000"), HasSubstr("at 10.0.0.2 port 4000")));
}

TEST(RunMachineTest, SuccessNeedsEveryRankToExitZero) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.End(1, 0);
  scene.End(1, 1);
  scene.Stop(1);
  scene.End(2, 2);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  EXPECT_THAT(scene.machine().WaitingFor(), HasSubstr("node 1 (host2)"));
  scene.End(2, 3);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  scene.Stop(2);
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_TRUE(scene.outcome().succeeded);
  EXPECT_EQ(scene.Last<Closed>(1).outcome.exit_code, 0);
}

TEST(RunMachineTest, OneFailureStopsAllAtOnceAndNamesTheFirstCause) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.End(2, 3, 42, false, 1000);
  EXPECT_EQ(scene.machine().state(), RunState::kStopping);
  for (const int node : {1, 2}) {
    EXPECT_EQ(scene.Last<Stop>(node).order.reason, StopReason::kWorkerFailed);
    EXPECT_THAT(scene.Last<Stop>(node).order.text, HasSubstr("rank 3 on node 1 (host2)"));
  }
  scene.End(1, 0, 9, false, 500);  // failed earlier, told later
  scene.End(1, 1, 1, true, 1500);
  scene.End(2, 2, 1, true, 1500);
  scene.Stop(2);
  EXPECT_EQ(scene.machine().state(), RunState::kStopping);
  EXPECT_THAT(scene.machine().WaitingFor(), HasSubstr("node 0 (host1)"));
  scene.Stop(1);
  ASSERT_EQ(scene.machine().state(), RunState::kClosed);
  const RunOutcome outcome = scene.Last<Closed>(2).outcome;
  EXPECT_FALSE(outcome.succeeded);
  EXPECT_EQ(outcome.exit_code, 9);
  ASSERT_TRUE(outcome.root_cause);
  EXPECT_EQ(outcome.root_cause->rank, 0);
  EXPECT_EQ(outcome.failures.size(), 4);
  EXPECT_EQ(scene.Count<Stop>(1), 1);
}

TEST(RunMachineTest, ANodeSpeaksOnlyForItsOwnRanks) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.End(2, 0, 7);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  EXPECT_THAT(scene.notes(), Contains(HasSubstr("rank 0, which is not its own")));
}

TEST(RunMachineTest, WordsOfAnotherEpochAreIgnored) {
  RunScene scene(1);
  scene.RunAll(1);
  scene.Say(1, Ended{0, scene.Ending(0, 7)});
  scene.Say(1, Stopped{7});
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
}

TEST(RunMachineTest, StoppedWithoutEndingsIsNoSuccess) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.Stop(2);
  EXPECT_EQ(scene.machine().state(), RunState::kStopping);
  scene.Stop(1);
  EXPECT_FALSE(scene.outcome().succeeded);
  EXPECT_EQ(scene.outcome().exit_code, 70);
  EXPECT_THAT(scene.outcome().reason, HasSubstr("how 2 of its 2 workers ended"));
}

TEST(RunMachineTest, ALostNodeStopsTheOthersAndIsNamed) {
  RunScene scene(3);
  scene.RunAll(3);
  scene.Lose(2, "its connection closed");
  EXPECT_EQ(scene.Last<Stop>(1).order.reason, StopReason::kNodeLost);
  EXPECT_THAT(scene.Last<Stop>(3).order.text,
              AllOf(HasSubstr("node 1 (host2)"), HasSubstr("its connection closed")));
  EXPECT_EQ(scene.Count<Stop>(2), 0);
  scene.End(1, 0, 6, false, 10);  // a consequence
  for (const int node : {1, 3}) {
    scene.Stop(node);
  }
  EXPECT_EQ(scene.outcome().exit_code, 75);
  EXPECT_THAT(scene.outcome().reason, HasSubstr("node 1 (host2)"));
  EXPECT_FALSE(scene.outcome().root_cause);
}

TEST(RunMachineTest, AConsequenceSeenBeforeTheLossIsStillNotTheCause) {
  RunScene scene(2);
  scene.RunAll(2);
  WorkerEnding ending = scene.Ending(0, 1);
  ending.last_lines = {"RuntimeError: Connection closed by peer [10.0.0.2]"};
  scene.Say(1, Ended{1, ending});
  scene.End(1, 1, 143, true);
  scene.Stop(1);
  scene.Lose(2, "silent");
  EXPECT_EQ(scene.outcome().exit_code, 75);
  EXPECT_THAT(scene.outcome().reason, HasSubstr("node 1 (host2)"));
  EXPECT_EQ(scene.outcome().failures.size(), 2);
}

TEST(RunMachineTest, ANodeThatGoesAfterItsWorkFinishedIsNoLoss) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.End(2, 2);
  scene.End(2, 3);
  scene.Stop(2);
  scene.Lose(2);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  scene.End(1, 0);
  scene.End(1, 1);
  scene.Stop(1);
  EXPECT_TRUE(scene.outcome().succeeded);
}

TEST(RunMachineTest, SilenceIsSuspectAfterFiveAndLostAfterFifteenSeconds) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.Tick(milliseconds(4900));
  EXPECT_THAT(scene.notes(), Not(Contains(HasSubstr("silent"))));
  scene.Tick(milliseconds(300));
  EXPECT_THAT(scene.notes(), Contains(HasSubstr("node 1 (host2) is silent for 5.")));
  scene.Say(2, Beat{});
  EXPECT_THAT(scene.notes(), Contains(HasSubstr("node 1 (host2) is heard again")));
  scene.Tick(milliseconds(14'900));
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  scene.Tick(milliseconds(200));
  EXPECT_EQ(scene.machine().state(), RunState::kStopping);
  EXPECT_THAT(scene.dropped().at(2), HasSubstr("limit 15 s"));
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
}

TEST(RunMachineTest, APauseOfTheHostIsNotBlamedOnTheMembers) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.Tick(seconds(1));
  scene.Pass(std::chrono::hours(1));  // suspended
  scene.TickAtOnce();
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  scene.Tick(seconds(15));
  EXPECT_EQ(scene.machine().state(), RunState::kStopping);
}

TEST(RunMachineTest, ASignalToOneNodeStopsAllWithItsCode) {
  RunScene scene(2);
  scene.RunAll(2);
  scene.Say(2, StopRequest{{StopReason::kSignal, "SIGTERM on host2", SIGTERM}});
  EXPECT_EQ(scene.Last<Stop>(1).order.signal, SIGTERM);
  scene.End(2, 2, 0, true);
  scene.End(2, 3, 0, true);
  scene.Stop(2);
  scene.End(1, 0, 1, true);
  scene.End(1, 1, 1, true);
  scene.Stop(1);
  EXPECT_EQ(scene.outcome().exit_code, 143);
  EXPECT_FALSE(scene.outcome().root_cause);
  EXPECT_THAT(scene.outcome().reason, HasSubstr("SIGTERM on host2"));
}

TEST(RunMachineTest, ACancellationDuringTheJoinEndsItForAll) {
  RunScene scene(3);
  scene.JoinAll(2);
  scene.Say(2, StopRequest{{StopReason::kCancelled, "cancelled by lr-ctl", SIGTERM}});
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_THAT(scene.Last<Refused>(1).text, HasSubstr("cancelled by lr-ctl"));
  EXPECT_EQ(scene.Last<Refused>(1).exit_code, 143);
}

TEST(RunMachineTest, ARequestReachesEveryNodeWhileWorkersRun) {
  RunScene scene(2);
  scene.JoinAll(2);
  scene.Say(2, ControlAsk{{ControlRequest::Kind::kCheckpoint, "early"}});
  EXPECT_EQ(scene.Count<Control>(1), 0);
  EXPECT_EQ(scene.Last<RequestUpdate>(2).result.state, RequestState::kFailed);
  EXPECT_THAT(scene.Last<RequestUpdate>(2).result.reason, HasSubstr("the run is COMMITTING"));
  EXPECT_EQ(scene.Count<RequestUpdate>(1), 0);
  scene.ReserveAndAck(2);
  scene.Say(2, ControlAsk{{ControlRequest::Kind::kCheckpoint, "r-1"}});
  EXPECT_EQ(scene.Last<Control>(1).request.id, "r-1");
  EXPECT_EQ(scene.Last<Control>(2).request.id, "r-1");
}

TEST(RunMachineTest, NothingRestartsAFinishedRun) {
  RunScene scene(1);
  scene.RunAll(1);
  scene.End(1, 0);
  scene.End(1, 1);
  scene.Stop(1);
  ASSERT_TRUE(scene.outcome().succeeded);
  scene.Say(1, StopRequest{{StopReason::kSignal, "late", SIGTERM}});
  scene.End(1, 0, 7);
  scene.Lose(1);
  scene.Tick(seconds(700));
  EXPECT_TRUE(scene.outcome().succeeded);
  EXPECT_EQ(scene.Count<Stop>(1), 0);
  EXPECT_THAT(scene.machine().WaitingFor(), IsEmpty());
}

}  // namespace
}  // namespace lr::launcher::testing
