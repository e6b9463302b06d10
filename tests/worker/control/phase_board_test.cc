#include "worker/control/phase_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A step thread whose time passes as told.
class StepThread {
 public:
  void Stay(Phase phase, milliseconds span) {
    board.Enter(phase, now);
    now += span;
  }

  /// One step of 10 + 20 + 30 ms and what comes on top of the data.
  void Step(milliseconds more = milliseconds(0)) {
    Stay(Phase::kData, milliseconds(10) + more);
    Stay(Phase::kForward, milliseconds(20));
    Stay(Phase::kBackward, milliseconds(30));
    board.Finish({.step = ++step, .total_steps = 1000}, now);
  }

  PhaseBoard::Reading Read() const { return board.Read(now); }

  PhaseBoard::Instant now{seconds(100)};
  PhaseBoard board{now};
  int64_t step = 0;
};

TEST(PhaseBoardTest, BeginsInInitAndTellsHowLong) {
  StepThread thread;
  thread.now += seconds(7);
  EXPECT_EQ(thread.Read().phase, Phase::kInit);
  EXPECT_EQ(thread.Read().in_phase, seconds(7));
  EXPECT_EQ(thread.Read().steps_done, 0);
}

TEST(PhaseBoardTest, APhaseSaidAgainIsProgressButNotANewStay) {
  StepThread thread;
  thread.Stay(Phase::kEval, seconds(3));
  const int64_t before = thread.Read().ticks;
  thread.Stay(Phase::kEval, seconds(3));
  EXPECT_EQ(thread.Read().ticks, before + 1);
  EXPECT_EQ(thread.Read().in_phase, seconds(6));
}

TEST(PhaseBoardTest, AStepThatIsOverIsIdleAndCounted) {
  StepThread thread;
  thread.step = 500;  // resumed
  thread.Step();
  const auto reading = thread.Read();
  EXPECT_EQ(reading.phase, Phase::kIdle);
  EXPECT_EQ(reading.step.step, 501);
  EXPECT_EQ(reading.step.total_steps, 1000);
  EXPECT_EQ(reading.steps_done, 1);
  EXPECT_EQ(reading.phase_total.at(static_cast<size_t>(Phase::kForward)), milliseconds(20));
}

TEST(PhaseBoardTest, TheFirstStepsCountOnlyUntilThereAreOthers) {
  StepThread thread;
  thread.Step(seconds(9));
  EXPECT_EQ(thread.Read().step_longest, milliseconds(9060));
  for (int i = 1; i < PhaseBoard::kFirstSteps; ++i) {
    thread.Step();
  }
  EXPECT_EQ(thread.Read().step_longest, milliseconds(9060));
  thread.Step();
  EXPECT_EQ(thread.Read().step_longest, milliseconds(60));
  EXPECT_EQ(thread.Read().steps_timed, 1);
}

TEST(PhaseBoardTest, LongestAndMedianAreOfTheNewestHundredSteps) {
  StepThread thread;
  for (int i = 0; i < PhaseBoard::kFirstSteps; ++i) {
    thread.Step();
  }
  thread.Step(seconds(5));
  for (int i = 1; i < PhaseBoard::kTimedSteps; ++i) {
    thread.Step(milliseconds(i % 2));
  }
  EXPECT_EQ(thread.Read().step_longest, milliseconds(5060));
  EXPECT_EQ(thread.Read().step_median, milliseconds(61));
  thread.Step();
  EXPECT_EQ(thread.Read().step_longest, milliseconds(61));
}

TEST(PhaseBoardTest, EvaluationAndCheckpointsAreNoPartOfAStep) {
  StepThread thread;
  thread.Step();
  thread.Stay(Phase::kEval, seconds(50));
  thread.Stay(Phase::kCheckpoint, seconds(40));
  thread.Step();
  EXPECT_EQ(thread.Read().step_longest, milliseconds(60));
  EXPECT_EQ(thread.Read().last_save, seconds(40));
}

}  // namespace
}  // namespace lr::worker
