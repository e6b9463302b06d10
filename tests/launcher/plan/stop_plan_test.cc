#include "launcher/plan/stop_plan.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using std::chrono_literals::operator""ms;

std::vector<std::pair<int, int>> Signals(const StopActions& actions) {
  std::vector<std::pair<int, int>> pairs;
  for (const StopSignal& signal : actions.signals) {
    pairs.emplace_back(signal.local_rank, signal.signal);
  }
  return pairs;
}

StopState TwoRunning(StopReason reason) {
  return {.reason = reason,
          .signal = SIGTERM,
          .grace = 30'000ms,
          .running = {{.local_rank = 0, .serves_store = true}, {.local_rank = 1}}};
}

TEST(StopPlanTest, APersonsSignalReachesAllAtOnce) {
  StopState state = TwoRunning(StopReason::kSignal);
  state.signal = SIGINT;
  const StopActions actions = DecideStop(state);
  EXPECT_THAT(Signals(actions), ElementsAre(std::pair(0, SIGINT), std::pair(1, SIGINT)));
  EXPECT_EQ(actions.look_again_at, 30'000ms);
}

TEST(StopPlanTest, AfterAFailureTheStoreIsStoppedLast) {
  StopState state = TwoRunning(StopReason::kWorkerFailed);
  StopActions actions = DecideStop(state);
  EXPECT_THAT(Signals(actions), ElementsAre(std::pair(1, SIGTERM)));
  EXPECT_EQ(actions.look_again_at, 15'000ms);
  state.running = {{.local_rank = 0, .serves_store = true}};
  actions = DecideStop(state);
  EXPECT_THAT(Signals(actions), ElementsAre(std::pair(0, SIGTERM)));
  EXPECT_EQ(actions.look_again_at, 30'000ms);
}

TEST(StopPlanTest, TheStoreDoesNotWaitLongerThanHalfOfTheGrace) {
  StopState state = TwoRunning(StopReason::kNodeLost);
  state.running[1].signalled = true;
  state.elapsed = 15'000ms;
  EXPECT_THAT(Signals(DecideStop(state)), ElementsAre(std::pair(0, SIGTERM)));
}

TEST(StopPlanTest, NobodyIsSignalledTwice) {
  StopState state = TwoRunning(StopReason::kSignal);
  state.running[0].signalled = state.running[1].signalled = true;
  const StopActions actions = DecideStop(state);
  EXPECT_THAT(actions.signals, IsEmpty());
  EXPECT_EQ(actions.look_again_at, 30'000ms);
}

TEST(StopPlanTest, WhatOutlivesTheGraceIsKilledOnce) {
  StopState state = TwoRunning(StopReason::kSignal);
  state.elapsed = 30'000ms;
  state.running[1].killed = true;
  const StopActions actions = DecideStop(state);
  EXPECT_THAT(Signals(actions), ElementsAre(std::pair(0, SIGKILL)));
  EXPECT_THAT(actions.signals[0].reason, HasSubstr("still running 30.0 s after SIGTERM"));
  EXPECT_EQ(actions.look_again_at, std::nullopt);
}

TEST(StopPlanTest, SecondSignalKillsAtOnce) {
  StopState state = TwoRunning(StopReason::kSignal);
  state.now = true;
  EXPECT_THAT(Signals(DecideStop(state)),
              ElementsAre(std::pair(0, SIGKILL), std::pair(1, SIGKILL)));
}

TEST(StopPlanTest, NoGraceMeansKillAtOnce) {
  StopState state = TwoRunning(StopReason::kWorkerFailed);
  state.grace = 0ms;
  EXPECT_THAT(Signals(DecideStop(state)),
              ElementsAre(std::pair(0, SIGKILL), std::pair(1, SIGKILL)));
}

TEST(StopPlanTest, NothingRunningNeedsNothing) {
  StopState state = TwoRunning(StopReason::kSignal);
  state.running.clear();
  EXPECT_THAT(DecideStop(state).signals, IsEmpty());
  EXPECT_EQ(DecideStop(state).look_again_at, std::nullopt);
}

}  // namespace
}  // namespace lr::launcher
