#pragma once
/// (pure) How the workers of a node are stopped (S-30): which of them gets which signal now, and
/// when to look again. The worker group calls it at every change (stop ordered, a worker ended,
/// second signal, timer) and sends what it returns.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/assignment.h"

namespace lr::launcher {

/// What was already done to one worker that still runs.
struct StoppingWorker {
  int local_rank = 0;
  bool serves_store = false;  ///< global rank 0: its peers depend on it until they have ended
  bool signalled = false;     ///< got the stop signal
  bool killed = false;        ///< got SIGKILL
};

struct StopState {
  StopReason reason = StopReason::kWorkerFailed;
  int signal = 15;
  bool now = false;                      ///< a second signal: no grace
  std::chrono::milliseconds elapsed{0};  ///< since the stop was ordered
  std::chrono::milliseconds grace{30'000};
  std::vector<StoppingWorker> running;
};

struct StopSignal {
  int local_rank = 0;
  int signal = 0;
  std::string reason;
};

struct StopActions {
  std::vector<StopSignal> signals;
  std::optional<std::chrono::milliseconds>
      look_again_at;  ///< elapsed time of the next decision; nullopt: nothing to wait for
};

/// The stop signal goes to all at once when a person or scheduler asked (workers may save
/// together); after a failure the worker that serves the store is signalled last: when the others
/// have ended, or half of the grace has passed. What still runs after the grace, or at once after a
/// second signal, is killed.
StopActions DecideStop(const StopState& state);

}  // namespace lr::launcher
