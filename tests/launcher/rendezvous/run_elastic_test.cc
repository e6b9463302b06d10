// Runs whose nodes come and go (R-24 to R-28, S-44).
#include <csignal>

#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ElasticScene : public RunScene {
 public:
  ElasticScene(int min_nodes, int max_nodes, RunPolicy policy = {}, bool native = false)
      : RunScene({.run_id = "run",
                  .min_nodes = min_nodes,
                  .max_nodes = max_nodes,
                  .native = native,
                  .policy = policy}) {}

  void JoinPlain(MemberId node) { Join(node, MakeNode("host" + std::to_string(node)), node == 1); }

  /// Everybody who is told accepts the epoch; node 1 holds rank 0.
  void Commit(const std::vector<MemberId>& nodes) {
    Say(1, Reserved{machine().epoch(), "10.0.0.1", 4000, ""});
    for (const MemberId node : nodes) {
      Say(node, Ack{machine().epoch(), ""});
    }
    EXPECT_EQ(machine().state(), RunState::kRunning) << machine().WaitingFor();
  }

  void Form(const std::vector<MemberId>& nodes) {
    for (const MemberId node : nodes) {
      JoinPlain(node);
    }
    if (machine().state() == RunState::kForming) {
      Tick(seconds(31), static_cast<int>(nodes.size()));
    }
    Commit(nodes);
  }

  std::vector<std::string> Hosts() {
    std::vector<std::string> hosts;
    for (const NodeAssignment& node : Last<Assign>(1).assignment.nodes) {
      hosts.push_back(node.host_name);
    }
    return hosts;
  }
};

TEST(RunElasticTest, TheMaximumStartsAtOnceAndTheMinimumAfterTheLastCall) {
  ElasticScene full(1, 2);
  full.JoinPlain(1);
  full.JoinPlain(2);
  EXPECT_EQ(full.machine().state(), RunState::kCommitting);

  ElasticScene scene(2, 4);
  scene.JoinPlain(1);
  EXPECT_THAT(scene.Last<Waiting>(1).text, HasSubstr("waiting for 1 of at least 2 nodes"));
  scene.Tick(seconds(40), 1);
  scene.JoinPlain(2);
  EXPECT_THAT(scene.Last<Waiting>(2).text, HasSubstr("the last call for up to 4 nodes, 30.0 s"));
  scene.Tick(seconds(20), 2);
  scene.JoinPlain(3);  // does not restart the timer
  scene.Tick(seconds(9), 3);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  scene.Tick(seconds(2), 3);
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  scene.Commit({1, 2, 3});
  EXPECT_EQ(scene.Last<Assign>(3).assignment.world_size, 6);
}

TEST(RunElasticTest, ALostNodeIsDoneWithoutWhileTheMinimumIsLeft) {
  ElasticScene scene(2, 3);
  scene.Form({1, 2, 3});
  scene.Lose(2);
  EXPECT_EQ(scene.Last<Stop>(3).order.reason, StopReason::kNodeLost);
  scene.Stop(1);
  scene.Stop(3);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  EXPECT_THAT(scene.Last<Reforming>(1).ended.next, HasSubstr("uses no restart"));
  scene.Tick(seconds(6), 3);
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  scene.Commit({1, 3});
  EXPECT_THAT(scene.Hosts(), ElementsAre("host1", "host3"));
  EXPECT_EQ(scene.Last<Assign>(3).assignment.restart_count, 0);
  scene.Lose(3);
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_EQ(scene.outcome().exit_code, 75);
}

TEST(RunElasticTest, ANodeThatComesLaterMakesAForeignRunGrowAtOnce) {
  ElasticScene scene(1, 3);
  scene.Form({1, 2});
  scene.JoinPlain(3);
  EXPECT_TRUE(scene.Last<Waiting>(3).spare);
  EXPECT_EQ(scene.Last<Stop>(2).order.reason, StopReason::kMembership);
  EXPECT_EQ(scene.Count<Stop>(3), 0);
  scene.Stop(1);
  scene.Stop(2);
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);  // the maximum is here
  scene.Commit({1, 2, 3});
  EXPECT_THAT(scene.Hosts(), ElementsAre("host1", "host2", "host3"));
  EXPECT_EQ(scene.Count<Reforming>(3), 0);
}

TEST(RunElasticTest, OurTrainerIsAskedForACheckpointFirst) {
  ElasticScene scene(1, 2, {}, /*native=*/true);
  scene.Form({1});
  scene.JoinPlain(2);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  EXPECT_EQ(scene.Last<Control>(1).request.kind, ControlRequest::Kind::kCheckpointAndStop);
  for (const int rank : {0, 1}) {
    WorkerEnding ending = scene.Ending(rank);
    ending.stopped_early = true;
    scene.Say(1, Ended{1, ending});
  }
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  EXPECT_THAT(scene.Last<Reforming>(1).ended.reason, HasSubstr("stopped at a checkpoint"));
  scene.Commit({1, 2});
}

TEST(RunElasticTest, AnEndThatWasReachedMeanwhileIsTheEnd) {
  ElasticScene scene(1, 2, {}, /*native=*/true);
  scene.Form({1});
  scene.JoinPlain(2);
  scene.End(1, 0);
  scene.End(1, 1);
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kClosed);
  EXPECT_TRUE(scene.outcome().succeeded);
  EXPECT_TRUE(scene.Last<Closed>(2).outcome.succeeded);
}

TEST(RunElasticTest, ARunThatNeverGrowsKeepsLateNodesAsSpares) {
  RunPolicy policy;
  policy.grow = GrowRule::kNever;
  ElasticScene scene(1, 2, policy);
  scene.Form({1});
  scene.JoinPlain(2);
  scene.Tick(seconds(60), 2);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  EXPECT_EQ(scene.Count<Stop>(1), 0);
}

TEST(RunElasticTest, MoreNodesThanTheMaximumAreSparesAndNeverAnError) {
  ElasticScene scene(1, 2);
  scene.Form({1, 2});
  scene.JoinPlain(3);
  scene.JoinPlain(4);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  EXPECT_TRUE(scene.Last<Waiting>(4).spare);
  scene.Lose(2);
  scene.Stop(1);
  scene.Tick(seconds(6), 4);
  scene.Commit({1, 3});
  EXPECT_THAT(scene.Hosts(), ElementsAre("host1", "host3"));  // the first that came
  scene.Lose(4);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
}

TEST(RunElasticTest, AReturningNodeIsPreferredToASpareForTheLastCall) {
  RunPolicy policy;
  policy.spares = 1;
  ElasticScene scene(2, 2, policy);
  scene.JoinPlain(1);
  scene.JoinPlain(2);
  scene.Commit({1, 2});
  scene.JoinPlain(3);
  EXPECT_TRUE(scene.Last<Waiting>(3).spare);
  scene.Join(4, MakeNode("host4"));
  EXPECT_EQ(scene.Last<Refused>(4).code, RefusalCode::kFull);
  scene.Lose(2);
  scene.Stop(1);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  scene.Tick(seconds(2), 3);
  NodeIdentity back = MakeNode("host2");
  back.node_id = "again";
  scene.Join(5, back);
  EXPECT_EQ(scene.machine().state(), RunState::kCommitting);
  scene.Commit({1, 5});
  EXPECT_THAT(scene.Hosts(), ElementsAre("host1", "host2"));
  scene.Lose(5);  // and nobody comes back
  scene.Stop(1);
  scene.Tick(seconds(6), 3);
  scene.Commit({1, 3});
  EXPECT_THAT(scene.Hosts(), ElementsAre("host1", "host3"));
}

TEST(RunElasticTest, LeavingIsNotClosing) {
  ElasticScene scene(1, 2);
  scene.Form({1, 2});
  scene.Say(2, StopRequest{{StopReason::kSignal, "SIGINT on host2", SIGINT}});
  EXPECT_EQ(scene.Last<Stop>(1).order.reason, StopReason::kMembership);
  scene.Stop(2);
  scene.Stop(1);
  EXPECT_EQ(scene.Last<Closed>(2).outcome.exit_code, 130);
  EXPECT_EQ(scene.Count<Closed>(1), 0);
  scene.Tick(seconds(6), 1);
  scene.Commit({1});
  scene.JoinPlain(3);
  scene.Stop(1);
  scene.Commit({1, 3});
  EXPECT_EQ(scene.machine().epoch(), 3);
}

TEST(RunElasticTest, ALeavingNodeAndAnotherMayFallSilentInTheSameMoment) {
  ElasticScene scene(1, 3);
  scene.Form({1, 2, 3});
  scene.Say(3, StopRequest{{StopReason::kSignal, "SIGINT on host3", SIGINT}});
  scene.Stop(1);
  scene.Stop(3);
  scene.Tick(seconds(16), 1);
  EXPECT_EQ(scene.Last<Closed>(3).outcome.exit_code, 130);
  EXPECT_EQ(scene.machine().state(), RunState::kForming);
  scene.Tick(seconds(5), 1);
  scene.Commit({1});
}

TEST(RunElasticTest, ASignalToTheServingNodeOrBelowTheMinimumEndsTheRun) {
  ElasticScene host(1, 2);
  host.Form({1, 2});
  host.Say(1, StopRequest{{StopReason::kSignal, "SIGTERM on host1", SIGTERM}});
  host.Stop(1);
  host.Stop(2);
  EXPECT_EQ(host.outcome().exit_code, 143);

  ElasticScene scene(2, 3);
  scene.Form({1, 2});
  scene.Say(2, StopRequest{{StopReason::kSignal, "SIGTERM on host2", SIGTERM}});
  scene.Stop(1);
  scene.Stop(2);
  EXPECT_EQ(scene.outcome().exit_code, 143);
}

TEST(RunElasticTest, AHostThatFailsTwiceInAnHourIsExcludedForAWhile) {
  ElasticScene scene(1, 2);
  scene.Form({1, 2});
  scene.Lose(2);
  scene.Stop(1);
  NodeIdentity node = MakeNode("host2");
  scene.Join(3, node);
  scene.Commit({1, 3});
  scene.Lose(3);
  scene.Stop(1);
  scene.Join(4, node);
  EXPECT_EQ(scene.Last<Refused>(4).code, RefusalCode::kExcluded);
  EXPECT_THAT(scene.Last<Refused>(4).text,
              AllOf(HasSubstr("host2 is excluded for 600 s"), HasSubstr("connection closed")));
  scene.Tick(seconds(6), 1);
  scene.Commit({1});
  scene.Tick(seconds(600), 1);
  scene.Join(5, node);
  EXPECT_TRUE(scene.Last<Waiting>(5).spare);
}

TEST(RunElasticTest, ASilentNodeThatConnectsAnewIsFencedAndMayJoinAgain) {
  ElasticScene scene(1, 2);
  scene.Form({1, 2});
  scene.Tick(seconds(6), 1);
  scene.JoinPlain(3);  // others are no reason
  EXPECT_THAT(scene.dropped(), ::testing::Not(Contains(::testing::Key(2))));
  NodeIdentity same = MakeNode("host2");
  scene.Join(4, same);
  EXPECT_THAT(scene.dropped().at(2), HasSubstr("connected anew"));
  EXPECT_EQ(scene.Last<Stop>(1).order.reason, StopReason::kNodeLost);
}

}  // namespace
}  // namespace lr::launcher::testing
