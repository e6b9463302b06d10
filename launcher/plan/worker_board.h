#pragma once
/// What a native worker tells about what it does (S-20), as plain data: made from worker.proto on
/// its node, passed on to the host, judged there (hang_watch.h, straggler.h). Times are spans of
/// the worker's own clock.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lr::launcher {

/// In the order of worker.proto.
enum class WorkerPhase {
  kInit,
  kData,
  kForward,
  kBackward,
  kReduce,
  kOptimizer,
  kEval,
  kCheckpoint,
  kIdle
};

inline constexpr int kWorkerPhases = 9;

constexpr std::string_view PhaseName(WorkerPhase phase) {
  constexpr std::string_view kNames[] = {
      "init", "data", "forward", "backward", "reduce", "optimizer", "eval", "checkpoint", "idle"};
  return kNames[static_cast<size_t>(phase)];
}

/// Where a rank stands in the sequence of one group's collectives.
struct CollectivePosition {
  std::string group;
  int64_t entered = 0;  ///< number of the newest one entered, from 1
  std::string operation = {};
  int64_t bytes = 0;
};

struct WorkerBoard {
  int rank = 0;
  WorkerPhase phase = WorkerPhase::kInit;
  std::chrono::milliseconds in_phase{0};
  int64_t step = 0;
  int64_t ticks = 0;  ///< grows with everything that the step thread announces
  int64_t steps_done = 0;
  int64_t steps_timed = 0;
  std::chrono::microseconds step_median{0};  ///< of the newest steps
  std::chrono::microseconds step_longest{0};
  std::chrono::milliseconds last_save{0};
  std::vector<std::chrono::microseconds> phase_total = {};  ///< by phase; empty: not told
  std::vector<CollectivePosition> collectives = {};
  bool left = false;  ///< said goodbye: it only has to exit
};

}  // namespace lr::launcher
