#include "launcher/plan/stop_plan.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "launcher/plan/failure_label.h"

namespace lr::launcher {
namespace {

StopActions KillAll(const StopState& state, const std::string& reason) {
  StopActions actions;
  for (const StoppingWorker& worker : state.running) {
    if (!worker.killed) {
      actions.signals.push_back({worker.local_rank, SIGKILL, reason});
    }
  }
  return actions;
}

/// Whether a peer of the store's server still runs, and the order matters.
bool MustWaitForPeers(const StopState& state) {
  const bool ordered = state.reason == StopReason::kWorkerFailed ||
                       state.reason == StopReason::kNodeLost ||
                       state.reason == StopReason::kHostLost;
  const auto is_peer = [](const StoppingWorker& worker) { return !worker.serves_store; };
  return ordered && state.elapsed < state.grace / 2 && std::ranges::any_of(state.running, is_peer);
}

}  // namespace

StopActions DecideStop(const StopState& state) {
  if (state.running.empty()) {
    return {};
  }
  if (state.now) {
    return KillAll(state, "second signal");
  }
  if (state.elapsed >= state.grace) {
    return KillAll(state,
                   fmt::format("still running {:.1f} s after {} (--shutdown-timeout)",
                               std::chrono::duration<double>(state.grace).count(),
                               SignalName(state.signal)));
  }
  StopActions actions{.signals = {}, .look_again_at = state.grace};
  for (const StoppingWorker& worker : state.running) {
    if (worker.signalled) {
      continue;
    }
    if (worker.serves_store && MustWaitForPeers(state)) {
      actions.look_again_at = state.grace / 2;
      continue;
    }
    actions.signals.push_back({worker.local_rank, state.signal, "stop"});
  }
  return actions;
}

}  // namespace lr::launcher
