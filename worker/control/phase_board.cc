#include "worker/control/phase_board.h"

#include <algorithm>
#include <vector>

namespace lr::worker {
namespace {

constexpr auto kPlain = std::memory_order_relaxed;

/// Part of a step: what comes between two of them is timed by itself.
bool IsWork(Phase phase) {
  return phase != Phase::kInit && phase != Phase::kEval && phase != Phase::kCheckpoint;
}

}  // namespace

void PhaseBoard::Tick() {
  ticks_.store(ticks_.load(kPlain) + 1, std::memory_order_release);
}

/// Books the time since the phase was entered.
void PhaseBoard::Leave(Instant now) {
  const Phase phase = phase_.load(kPlain);
  const int64_t stay = now.count() - entered_.load(kPlain);
  Word& total = phase_total_.at(static_cast<size_t>(phase));
  total.store(total.load(kPlain) + stay, kPlain);
  if (IsWork(phase)) {
    step_time_ += stay;
  }
  if (phase == Phase::kCheckpoint) {
    last_save_.store(stay, kPlain);
  }
}

void PhaseBoard::Enter(Phase phase, Instant now) {
  if (phase != phase_.load(kPlain)) {
    Leave(now);
    entered_.store(now.count(), kPlain);
    phase_.store(phase, kPlain);
  }
  Tick();
}

void PhaseBoard::Finish(const StepReport& report, Instant now) {
  Leave(now);
  entered_.store(now.count(), kPlain);
  phase_.store(Phase::kIdle, kPlain);
  step_.store(report.step, kPlain);
  total_steps_.store(report.total_steps, kPlain);
  loss_.store(report.loss, kPlain);
  samples_per_s_.store(report.samples_per_s, kPlain);
  step_s_.store(report.step_s, kPlain);
  const int64_t done = steps_done_.load(kPlain) + 1;
  steps_done_.store(done, kPlain);
  const int64_t timed = done == kFirstSteps + 1 ? 0 : steps_timed_.load(kPlain);
  step_times_.at(static_cast<size_t>(timed % kTimedSteps)).store(step_time_, kPlain);
  steps_timed_.store(timed + 1, kPlain);
  step_time_ = 0;
  Tick();
}

PhaseBoard::Reading PhaseBoard::Read(Instant now) const {
  Reading reading;
  reading.ticks = ticks_.load(std::memory_order_acquire);
  reading.phase = phase_.load(kPlain);
  reading.in_phase = std::max(Instant(0), now - Instant(entered_.load(kPlain)));
  reading.step = {.step = step_.load(kPlain),
                  .total_steps = total_steps_.load(kPlain),
                  .loss = loss_.load(kPlain),
                  .samples_per_s = samples_per_s_.load(kPlain),
                  .step_s = step_s_.load(kPlain)};
  reading.steps_done = steps_done_.load(kPlain);
  reading.steps_timed = steps_timed_.load(kPlain);
  reading.last_save = Instant(last_save_.load(kPlain));
  for (size_t i = 0; i < kPhases; ++i) {
    reading.phase_total.at(i) = Instant(phase_total_.at(i).load(kPlain));
  }
  std::vector<int64_t> times;
  for (int64_t i = 0; i < std::min<int64_t>(reading.steps_timed, kTimedSteps); ++i) {
    times.push_back(step_times_.at(static_cast<size_t>(i)).load(kPlain));
  }
  if (!times.empty()) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    reading.step_median = Instant(*middle);
    reading.step_longest = Instant(*std::max_element(middle, times.end()));
  }
  return reading;
}

}  // namespace lr::worker
