#pragma once
/// What the step thread is doing, in words of memory that any thread may read (S-20): phase, step,
/// how long steps and phases take. The step thread writes with plain stores and never waits; the
/// link thread reads. A reading may mix two moments that lie next to each other. Cannot fail. Reads
/// no clock: who calls gives the time.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "worker/control/control.h"

namespace lr::worker {

class PhaseBoard {
 public:
  using Instant = std::chrono::nanoseconds;  ///< of one monotonic clock

  static constexpr int kPhases = 9;
  static constexpr int kTimedSteps = 100;  ///< the newest ones
  /// Slow for their own reasons (allocation, tuning): they count only until there are others.
  static constexpr int kFirstSteps = 5;

  struct Reading {
    Phase phase = Phase::kInit;
    Instant in_phase{0};  ///< since it was entered
    StepReport step;
    int64_t ticks = 0;  ///< grows with every call of the step thread
    int64_t steps_done = 0;
    int64_t steps_timed = 0;
    Instant step_median{0};
    Instant step_longest{0};
    Instant last_save{0};  ///< the last stay in kCheckpoint
    std::array<Instant, kPhases> phase_total{};
  };

  explicit PhaseBoard(Instant now) : entered_(now.count()) {}

  // Step thread.
  void Enter(Phase phase, Instant now);
  /// The step is over; it is kIdle until it enters the next phase.
  void Finish(const StepReport& report, Instant now);

  // Any thread.
  Reading Read(Instant now) const;

 private:
  using Word = std::atomic<int64_t>;

  void Leave(Instant now);
  void Tick();

  std::atomic<Phase> phase_{Phase::kInit};
  Word entered_;
  Word ticks_{0};
  Word step_{0};
  Word total_steps_{0};
  std::atomic<double> loss_{0};
  std::atomic<double> samples_per_s_{0};
  std::atomic<double> step_s_{0};
  Word steps_done_{0};
  Word steps_timed_{0};
  std::array<Word, kTimedSteps> step_times_{};
  Word last_save_{0};
  std::array<Word, kPhases> phase_total_{};
  int64_t step_time_ = 0;  ///< of the step under way; step thread only
};

}  // namespace lr::worker
