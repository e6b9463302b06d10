// Requested checkpoints and pre-emption, as the host sees them (spec 5).
#include <csignal>

#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using ::testing::HasSubstr;

RunRules Native(int nodes) {
  return {.run_id = "run", .min_nodes = nodes, .max_nodes = nodes, .native = true};
}

ControlAsk Ask(const std::string& id) {
  return {{ControlRequest::Kind::kCheckpoint, id}};
}

TEST(RunRequestsTest, RequestsOfAllNodesAreNumberedAndDeliveredOnce) {
  RunScene scene(Native(2));
  scene.RunAll(2);
  scene.Say(2, Ask("a"));
  EXPECT_EQ(scene.Last<Control>(1).request.number, 1);
  scene.Say(1, Ask("b"));
  EXPECT_EQ(scene.Last<Control>(2).request.number, 2);
  scene.Say(1, Ask("a"));  // the same request, by another node
  EXPECT_EQ(scene.Count<Control>(2), 2);
  EXPECT_EQ(scene.Last<RequestUpdate>(1).result.number, 1);
}

TEST(RunRequestsTest, EveryNodeIsToldTheSameAnswer) {
  RunScene scene(Native(2));
  scene.RunAll(2);
  scene.Say(2, Ask("a"));
  scene.Say(1, Saved{1, {.rank = 0, .running = true, .step = 7, .request = 1}});
  EXPECT_EQ(scene.Last<RequestUpdate>(2).result.state, RequestState::kRunning);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(scene.Last<RequestUpdate>(1).result.state, RequestState::kRunning) << rank;
    scene.Say(rank / 2 + 1,
              Saved{1, {.rank = rank, .step = 7, .request = 1, .directory = "/out/7"}});
  }
  for (const int node : {1, 2}) {
    EXPECT_EQ(scene.Last<RequestUpdate>(node).result.state, RequestState::kComplete);
    EXPECT_EQ(scene.Last<RequestUpdate>(node).result.directory, "/out/7");
  }
}

TEST(RunRequestsTest, ARequestForNewcomersHasANumberSoThatLateWorkersGetItToo) {
  RunRules rules = Native(1);
  rules.max_nodes = 2;
  RunScene scene(rules);
  scene.Join(1, MakeNode("host1", 0), true);
  scene.Tick(seconds(31), 1);
  scene.ReserveAndAck(1);
  ASSERT_EQ(scene.machine().state(), RunState::kRunning);
  scene.Join(2, MakeNode("host2", 1));
  EXPECT_EQ(scene.Last<Control>(1).request.kind, ControlRequest::Kind::kCheckpointAndStop);
  EXPECT_EQ(scene.Last<Control>(1).request.number, 1);
}

TEST(RunRequestsTest, ReportsOfAnEarlierEpochAnswerNothing) {
  RunScene scene(Native(2));
  scene.RunAll(2);
  scene.Say(2, Ask("a"));
  scene.Say(1, Saved{0, {.rank = 0, .step = 7, .request = 1, .error = "old"}});
  EXPECT_EQ(scene.Last<RequestUpdate>(2).result.state, RequestState::kAccepted);
}

TEST(RunRequestsTest, AnEpochThatEndsFailsWhatIsOpen) {
  RunScene scene(Native(2));
  scene.RunAll(2);
  scene.Say(2, Ask("a"));
  scene.FailEpoch(2, 3, 42);
  EXPECT_EQ(scene.Last<RequestUpdate>(1).result.state, RequestState::kFailed);
  EXPECT_THAT(scene.Last<RequestUpdate>(1).result.reason, HasSubstr("the workers ended first"));
}

TEST(RunRequestsTest, EstimatesOfAnyNodeJudgeTheTime) {
  RunScene scene(Native(2));
  scene.RunAll(2);
  scene.Say(2, Progress{1, {5, 4, "/out", {1.0, 10.0}}});
  scene.Say(1, ControlAsk{{ControlRequest::Kind::kCheckpoint, "a", 0, 1'000}});
  EXPECT_THAT(scene.Last<RequestUpdate>(1).result.reason, HasSubstr("NOT_ENOUGH_TIME: needed 17"));
}

/// All workers end as trainers do after SIGTERM.
void StopAll(RunScene& scene, int nodes) {
  for (int node = 1; node <= nodes; ++node) {
    for (int rank = 2 * node - 2; rank < 2 * node; ++rank) {
      scene.End(node, rank, 143, true);
    }
    scene.Stop(node);
  }
}

const StopRequest kNotice{{StopReason::kPreempted, "spot on host1", SIGTERM, 120'000}};

TEST(RunPreemptionTest, ANewCheckpointGives85AndNone86) {
  for (const bool saved : {true, false}) {
    RunScene scene(Native(2));
    scene.RunAll(2);
    scene.Say(1, Progress{1, {10, 8, "/out"}});
    scene.Say(1, kNotice);
    EXPECT_EQ(scene.Last<Stop>(2).order.within_ms, 120'000);
    if (saved) {
      scene.Say(1, Progress{1, {11, 11, "/out"}});
    }
    StopAll(scene, 2);
    EXPECT_EQ(scene.outcome().exit_code, saved ? 85 : 86);
    EXPECT_THAT(scene.outcome().reason, HasSubstr("pre-empted: spot on host1"));
    EXPECT_TRUE(scene.outcome().failures.empty());
  }
}

TEST(RunPreemptionTest, ARunThatHadReachedItsEndSucceeded) {
  RunScene scene(Native(1));
  scene.RunAll(1);
  scene.Say(1, kNotice);
  scene.End(1, 0, 0);
  scene.End(1, 1, 0);
  scene.Stop(1);
  EXPECT_TRUE(scene.outcome().succeeded);
}

TEST(RunPreemptionTest, ExitCode0AfterOurSignalIsNoSuccess) {
  RunScene scene(Native(1));
  scene.RunAll(1);
  scene.Say(1, kNotice);
  scene.End(1, 0, 0, true);
  scene.End(1, 1, 0, true);
  scene.Stop(1);
  EXPECT_EQ(scene.outcome().exit_code, 86);
}

TEST(RunPreemptionTest, NothingRestartsARunWhoseOnlyMachineIsWantedBack) {
  RunRules rules = Native(1);
  rules.policy.restarts.max_restarts = 3;
  RunScene scene(rules);
  scene.RunAll(1);
  scene.Say(1, kNotice);
  StopAll(scene, 1);
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
}

TEST(RunPreemptionTest, InAnElasticRunOnlyThatNodeLeavesAndNoRestartIsUsed) {
  RunRules rules = Native(1);
  rules.max_nodes = 2;
  rules.policy.restarts.max_restarts = 1;
  RunScene scene(rules);
  scene.JoinAll(2);
  scene.ReserveAndAck(2);
  ASSERT_EQ(scene.machine().state(), RunState::kRunning);
  scene.Say(2, StopRequest{{StopReason::kPreempted, "spot on host2", SIGTERM, 30'000}});
  EXPECT_EQ(scene.Last<Stop>(1).order.reason, StopReason::kPreempted);
  scene.Say(1, Progress{1, {11, 11, "/out"}});
  StopAll(scene, 2);
  EXPECT_EQ(scene.Last<Closed>(2).outcome.exit_code, 85);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  EXPECT_THAT(scene.Last<Reforming>(1).ended.next,
              HasSubstr("a new start after a pre-emption, which uses no restart"));
}

}  // namespace
}  // namespace lr::launcher::testing
