#include "launcher/plan/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kMiddle = 0.5;  // of the jitter: the plain pause

/// An attempt of which rank 1 ended with `code` after `uptime`.
EpochEnd Failed(int code, seconds uptime = seconds(100)) {
  WorkerEnding cause;
  cause.rank = 1;
  cause.pid = 10;
  cause.exit_code = code;
  cause.end_unix_ns = std::chrono::nanoseconds(uptime).count();
  EpochEnd end;
  end.root_cause = cause;
  end.ran_for = uptime;
  return end;
}

EpochEnd FailedAt(int64_t step, int64_t checkpoint, seconds uptime = seconds(100)) {
  EpochEnd end = Failed(1, uptime);
  end.progress = TrainingProgress{step, checkpoint};
  return end;
}

EpochEnd Preempted() {
  EpochEnd end;
  end.kind = EpochEndKind::kPreempted;
  return end;
}

EpochEnd NodeLost(int left, int minimum) {
  EpochEnd end;
  end.kind = EpochEndKind::kNodeLost;
  end.nodes_lost = 1;
  end.nodes_left = left;
  end.min_nodes = minimum;
  return end;
}

/// A run whose epochs end as told.
class Story {
 public:
  explicit Story(RestartRules rules) : rules_(rules) {}

  RestartDecision After(const EpochEnd& end) {
    RestartDecision decision = DecideRestart(end, history_, rules_, kMiddle);
    history_ = Remember(history_, end, decision);
    return decision;
  }

 private:
  RestartRules rules_;
  RestartHistory history_;
};

TEST(RestartPolicyTest, WithoutABudgetTheFailureIsTheEnd) {
  const RestartDecision decision = Story({}).After(Failed(7));
  EXPECT_FALSE(decision.again);
  EXPECT_FALSE(decision.exit_code);
  EXPECT_THAT(decision.reason, IsEmpty());
}

TEST(RestartPolicyTest, TheBudgetIsUsedUpWithGrowingPauses) {
  Story story({.max_restarts = 3, .max_node_losses = {}});
  for (int restart = 1; restart <= 3; ++restart) {
    const RestartDecision decision = story.After(Failed(restart));
    EXPECT_TRUE(decision.again);
    EXPECT_TRUE(decision.counts);
    EXPECT_EQ(decision.delay, seconds(1 << (restart - 1)));
    EXPECT_THAT(decision.reason, HasSubstr("restart " + std::to_string(restart) + " of 3"));
  }
  const RestartDecision last = story.After(Failed(9));
  EXPECT_FALSE(last.again);
  EXPECT_FALSE(last.exit_code);  // the worker's own
  EXPECT_THAT(last.reason, HasSubstr("all 3 are used"));
}

TEST(RestartPolicyTest, ThePauseHasJitterAndAnUpperBound) {
  const RestartRules rules{.max_restarts = 100, .max_node_losses = {}};
  RestartHistory history;
  EXPECT_EQ(DecideRestart(Failed(1), history, rules, 0.0).delay, milliseconds(750));
  EXPECT_EQ(DecideRestart(Failed(1), history, rules, 0.999).delay, milliseconds(1249));
  history.in_a_row = 50;
  EXPECT_EQ(DecideRestart(Failed(1), history, rules, kMiddle).delay, seconds(60));
}

TEST(RestartPolicyTest, TenMinutesOfProgressResetThePause) {
  Story story({.max_restarts = 10, .max_node_losses = {}});
  story.After(FailedAt(1, 0));
  EXPECT_EQ(story.After(FailedAt(2, 0)).delay, seconds(2));
  EXPECT_EQ(story.After(FailedAt(3, 0, minutes(10))).delay, seconds(1));
  EXPECT_EQ(story.After(FailedAt(4, 0)).delay, seconds(2));
  // Ten minutes without progress are no reason for patience.
  EXPECT_EQ(story.After(FailedAt(4, 0, minutes(10))).delay, seconds(4));
}

TEST(RestartPolicyTest, TheSameEarlyFailureTwiceInARowEndsTheRun) {
  Story story({.max_restarts = 9, .max_node_losses = {}});
  EXPECT_TRUE(story.After(Failed(7, seconds(29))).again);
  const RestartDecision second = story.After(Failed(7, seconds(5)));
  EXPECT_FALSE(second.again);
  EXPECT_EQ(second.exit_code, 93);
  EXPECT_THAT(second.reason,
              HasSubstr("rank 1 ended with exit code 7 within 30 s, twice in a row"));
}

TEST(RestartPolicyTest, LateOrDifferentFailuresAreNotTheSame) {
  Story story({.max_restarts = 9, .max_node_losses = {}});
  EXPECT_TRUE(story.After(Failed(7, seconds(5))).again);
  EXPECT_TRUE(story.After(Failed(8, seconds(5))).again);
  EXPECT_TRUE(story.After(Failed(8, seconds(30))).again);
  EXPECT_TRUE(story.After(Failed(8, seconds(5))).again);
  EXPECT_TRUE(story.After(NodeLost(1, 1)).again);
  EXPECT_TRUE(story.After(Failed(8, seconds(5))).again);
}

TEST(RestartPolicyTest, AMistakeInTheCommandIsNotRepeated) {
  EpochEnd usage = Failed(2, seconds(1));
  usage.root_cause->last_lines = {"usage: train.py [-h]"};
  EpochEnd import = Failed(1, seconds(40));
  import.root_cause->last_lines = {"ModuleNotFoundError: No module named 'x'"};
  for (const EpochEnd& end : {usage, import, Failed(78)}) {
    const RestartDecision decision = Story({.max_restarts = 3, .max_node_losses = {}}).After(end);
    EXPECT_FALSE(decision.again);
    EXPECT_EQ(decision.exit_code, 93);
    EXPECT_THAT(decision.reason, HasSubstr("another start would end in the same way"));
  }
  Story later({.max_restarts = 3, .max_node_losses = {}});
  EXPECT_TRUE(later.After(Failed(9)).again);
  EXPECT_TRUE(later.After(import).again);  // it worked once, so the command is right
}

TEST(RestartPolicyTest, AProgramThatCannotBeStartedIsNotTriedAgain) {
  EpochEnd end = Failed(127);
  end.root_cause->pid = 0;
  const RestartDecision decision = Story({.max_restarts = 3, .max_node_losses = {}}).After(end);
  EXPECT_FALSE(decision.again);
  EXPECT_FALSE(decision.exit_code);
  EXPECT_THAT(decision.reason, HasSubstr("could not be started"));
}

TEST(RestartPolicyTest, ThreeAttemptsWithoutProgressEndTheRun) {
  Story story({.max_restarts = 9, .max_node_losses = {}});
  EXPECT_TRUE(story.After(FailedAt(50, 40)).again);
  EXPECT_TRUE(story.After(FailedAt(45, 40)).again);
  EXPECT_TRUE(story.After(Failed(3)).again);  // told nothing at all
  const RestartDecision third = story.After(FailedAt(50, 40));
  EXPECT_FALSE(third.again);
  EXPECT_EQ(third.exit_code, 93);
  EXPECT_THAT(third.reason, HasSubstr("3 attempts in a row came no further than step 50"));
}

TEST(RestartPolicyTest, ANewCheckpointIsProgress) {
  Story story({.max_restarts = 9, .max_node_losses = {}});
  for (int64_t checkpoint = 1; checkpoint <= 6; ++checkpoint) {
    EXPECT_TRUE(story.After(FailedAt(50, checkpoint)).again);
  }
}

TEST(RestartPolicyTest, ForeignProgramsAreNotJudgedByProgress) {
  Story story({.max_restarts = 9, .max_node_losses = {}});
  for (int attempt = 0; attempt < 6; ++attempt) {
    EXPECT_TRUE(story.After(Failed(1)).again);
  }
}

TEST(RestartPolicyTest, AlwaysRestartSwitchesTheJudgementsOffButNotTheWorkersWish) {
  Story story({.max_restarts = 9, .max_node_losses = {}, .always = true});
  EXPECT_TRUE(story.After(Failed(78, seconds(1))).again);
  EXPECT_TRUE(story.After(Failed(78, seconds(1))).again);
  for (int attempt = 0; attempt < 4; ++attempt) {
    EXPECT_TRUE(story.After(FailedAt(0, 0)).again);
  }
  const RestartDecision asked = story.After(Failed(93));
  EXPECT_FALSE(asked.again);
  EXPECT_EQ(asked.exit_code, 93);
}

TEST(RestartPolicyTest, ATrainingThatOnlyCouldNotPublishIsNotRunAgain) {
  Story story({.max_restarts = 9, .max_node_losses = {}, .always = true});
  const RestartDecision decision = story.After(Failed(74));
  EXPECT_FALSE(decision.again);
  EXPECT_EQ(decision.exit_code, std::nullopt);  // the worker's own
  EXPECT_THAT(decision.reason, HasSubstr("publishing failed"));
}

TEST(RestartPolicyTest, PreemptionsAndMembershipChangesAreFree) {
  Story story({.max_restarts = 1, .max_node_losses = {}});
  EpochEnd membership;
  membership.kind = EpochEndKind::kMembership;
  for (const EpochEnd& end : {Preempted(), Preempted(), Preempted(), membership}) {
    const RestartDecision decision = story.After(end);
    EXPECT_TRUE(decision.again);
    EXPECT_FALSE(decision.counts);
    EXPECT_EQ(decision.delay, seconds(0));
  }
  EXPECT_TRUE(story.After(Failed(1)).counts);
  EXPECT_FALSE(story.After(Failed(2)).again);
}

TEST(RestartPolicyTest, LostNodesAreSurvivedDownToTheMinimum) {
  Story story({});
  const RestartDecision decision = story.After(NodeLost(2, 2));
  EXPECT_TRUE(decision.again);
  EXPECT_FALSE(decision.counts);
  const RestartDecision below = story.After(NodeLost(1, 2));
  EXPECT_FALSE(below.again);
  EXPECT_THAT(below.reason, HasSubstr("1 of at least 2 nodes are left"));
}

TEST(RestartPolicyTest, ABudgetOfLossesWaitsForOthersInTheirPlace) {
  Story story({.max_restarts = 0, .max_node_losses = 2});
  EXPECT_TRUE(story.After(NodeLost(1, 2)).again);
  EXPECT_TRUE(story.After(NodeLost(1, 2)).again);
  const RestartDecision third = story.After(NodeLost(1, 2));
  EXPECT_FALSE(third.again);
  EXPECT_THAT(third.reason, HasSubstr("3 nodes were lost, --max-node-losses allows 2"));
}

}  // namespace
}  // namespace lr::launcher
