#include "launcher/plan/signal_plan.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::HasSubstr;

SignalState State(RunPhase phase, bool native = false) {
  return {.phase = phase, .native = native, .stop_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT}};
}

TEST(SignalPlanTest, StopSignalByPhase) {
  EXPECT_EQ(DecideSignal(SIGTERM, State(RunPhase::kJoining)).action, SignalAction::kLeave);
  EXPECT_EQ(DecideSignal(SIGTERM, State(RunPhase::kWorking)).action, SignalAction::kStop);
  EXPECT_EQ(DecideSignal(SIGINT, State(RunPhase::kStopping)).action, SignalAction::kKill);
  EXPECT_EQ(DecideSignal(SIGINT, State(RunPhase::kClosing)).action, SignalAction::kGiveUp);
  EXPECT_THAT(DecideSignal(SIGINT, State(RunPhase::kStopping)).reason,
              HasSubstr("SIGINT while stopping"));
}

TEST(SignalPlanTest, UserSignalsAskNativeWorkersForACheckpoint) {
  EXPECT_EQ(DecideSignal(SIGUSR1, State(RunPhase::kWorking, true)).action,
            SignalAction::kCheckpoint);
  EXPECT_EQ(DecideSignal(SIGUSR2, State(RunPhase::kWorking, true)).action,
            SignalAction::kCheckpointAndStop);
}

TEST(SignalPlanTest, UserSignalsReachForeignWorkersAsTheyAre) {
  EXPECT_EQ(DecideSignal(SIGUSR1, State(RunPhase::kWorking)).action, SignalAction::kForward);
  EXPECT_EQ(DecideSignal(SIGUSR2, State(RunPhase::kWorking)).action, SignalAction::kForward);
}

TEST(SignalPlanTest, UserSignalsNeverEndTheJoin) {
  for (const RunPhase phase : {RunPhase::kJoining, RunPhase::kStopping, RunPhase::kClosing}) {
    EXPECT_EQ(DecideSignal(SIGUSR1, State(phase, true)).action, SignalAction::kNothing);
  }
}

TEST(SignalPlanTest, ListedSignalIsAStopSignalWhateverItMeansElse) {
  SignalState state = State(RunPhase::kWorking, true);
  state.stop_signals = {SIGUSR1};
  EXPECT_EQ(DecideSignal(SIGUSR1, state).action, SignalAction::kStop);
  EXPECT_EQ(DecideSignal(SIGTERM, state).action, SignalAction::kNothing);
}

TEST(SignalPlanTest, RulesOfTheUserWinWhileWorkersRun) {
  SignalState state = State(RunPhase::kWorking, true);
  state.rules = {{SIGTERM, SignalRule::kCheckpointAndStop},
                 {SIGUSR1, SignalRule::kPreempt},
                 {SIGUSR2, SignalRule::kForward},
                 {SIGXCPU, SignalRule::kCheckpoint},
                 {SIGURG, SignalRule::kStop},
                 {SIGHUP, SignalRule::kIgnore}};
  EXPECT_EQ(DecideSignal(SIGTERM, state).action, SignalAction::kCheckpointAndStop);
  EXPECT_EQ(DecideSignal(SIGUSR1, state).action, SignalAction::kPreempt);
  EXPECT_EQ(DecideSignal(SIGUSR2, state).action, SignalAction::kForward);
  EXPECT_EQ(DecideSignal(SIGXCPU, state).action, SignalAction::kCheckpoint);
  EXPECT_EQ(DecideSignal(SIGURG, state).action, SignalAction::kStop);
  EXPECT_EQ(DecideSignal(SIGHUP, state).action, SignalAction::kNothing);
  EXPECT_EQ(DecideSignal(SIGINT, state).action, SignalAction::kStop) << "not listed";
  EXPECT_THAT(DecideSignal(SIGUSR1, state).reason, HasSubstr("SIGUSR1 (--on-signal)"));
}

TEST(SignalPlanTest, ASecondStopSignalKillsWhateverTheRulesSay) {
  SignalState state = State(RunPhase::kStopping, true);
  state.rules = {{SIGTERM, SignalRule::kCheckpointAndStop}, {SIGUSR1, SignalRule::kCheckpoint}};
  EXPECT_EQ(DecideSignal(SIGTERM, state).action, SignalAction::kKill);
  EXPECT_EQ(DecideSignal(SIGUSR1, state).action, SignalAction::kNothing);
  state.phase = RunPhase::kJoining;
  EXPECT_EQ(DecideSignal(SIGTERM, state).action, SignalAction::kLeave);
}

TEST(SignalPlanTest, AForeignProgramGetsTheSignalItself) {
  SignalState state = State(RunPhase::kWorking, false);
  state.rules = {{SIGUSR1, SignalRule::kCheckpoint}, {SIGUSR2, SignalRule::kPreempt}};
  EXPECT_EQ(DecideSignal(SIGUSR1, state).action, SignalAction::kForward);
  EXPECT_EQ(DecideSignal(SIGUSR2, state).action, SignalAction::kPreempt);
}

TEST(SignalPlanTest, JobControlReachesTheWorkers) {
  EXPECT_EQ(DecideSignal(SIGTSTP, State(RunPhase::kWorking)).action, SignalAction::kSuspend);
  EXPECT_EQ(DecideSignal(SIGCONT, State(RunPhase::kStopping)).action, SignalAction::kBroadcast);
  EXPECT_EQ(DecideSignal(SIGWINCH, State(RunPhase::kWorking)).action, SignalAction::kBroadcast);
}

}  // namespace
}  // namespace lr::launcher
