#include "launcher/plan/signal_plan.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "launcher/plan/failure_label.h"

namespace lr::launcher {
namespace {

SignalDecision DecideStopSignal(const std::string& name, RunPhase phase) {
  switch (phase) {
    case RunPhase::kJoining:
      return {SignalAction::kLeave, fmt::format("{} before the workers were started", name)};
    case RunPhase::kWorking:
      return {SignalAction::kStop,
              fmt::format("{} was sent to lr-launch; once more kills the workers", name)};
    case RunPhase::kStopping:
      return {SignalAction::kKill, fmt::format("{} while stopping: no more grace", name)};
    case RunPhase::kClosing:
      return {SignalAction::kGiveUp,
              fmt::format("{}: the other nodes are not waited for any longer", name)};
  }
  return {};
}

SignalDecision DecideUserSignal(int signal, const std::string& name, const SignalState& state) {
  if (state.phase != RunPhase::kWorking) {
    return {SignalAction::kNothing, fmt::format("{} is ignored: no worker is at work", name)};
  }
  if (!state.native) {
    return {SignalAction::kForward,
            fmt::format("{} goes to the workers that handle it themselves", name)};
  }
  return signal == SIGUSR1
             ? SignalDecision{SignalAction::kCheckpoint, fmt::format("{}: checkpoint now", name)}
             : SignalDecision{SignalAction::kCheckpointAndStop,
                              fmt::format("{}: checkpoint, then stop", name)};
}

SignalDecision DecideByRule(SignalRule rule, const std::string& name, bool askable) {
  const std::string why = fmt::format("{} (--on-signal)", name);
  switch (rule) {
    case SignalRule::kCheckpoint:
    case SignalRule::kCheckpointAndStop:
      if (!askable) {
        return {SignalAction::kForward,
                fmt::format("{} goes to the workers that handle it themselves", why)};
      }
      return rule == SignalRule::kCheckpoint
                 ? SignalDecision{SignalAction::kCheckpoint, why + ": checkpoint now"}
                 : SignalDecision{SignalAction::kCheckpointAndStop,
                                  why + ": checkpoint, then stop"};
    case SignalRule::kPreempt:
      return {SignalAction::kPreempt, why + ": the machine is wanted back"};
    case SignalRule::kForward:
      return {SignalAction::kForward,
              fmt::format("{} goes to the workers that handle it themselves", why)};
    case SignalRule::kStop:
      return {SignalAction::kStop, why + " stops the run"};
    case SignalRule::kIgnore:
      return {SignalAction::kNothing, why + " is ignored"};
  }
  return {};
}

}  // namespace

SignalDecision DecideSignal(int signal, const SignalState& state) {
  const std::string name = SignalName(signal);
  const auto rule = state.rules.find(signal);
  if (rule != state.rules.end() && state.phase == RunPhase::kWorking) {
    return DecideByRule(rule->second, name, state.native || state.askable);
  }
  if (std::ranges::find(state.stop_signals, signal) != state.stop_signals.end()) {
    return DecideStopSignal(name, state.phase);
  }
  switch (signal) {
    case SIGUSR1:
    case SIGUSR2:
      return DecideUserSignal(signal, name, state);
    case SIGTSTP:
      return {SignalAction::kSuspend, fmt::format("{}: the workers stop, too", name)};
    case SIGCONT:
    case SIGWINCH:
      return {SignalAction::kBroadcast, fmt::format("{} concerns the workers, too", name)};
    default:
      return {SignalAction::kNothing, fmt::format("{} means nothing here", name)};
  }
}

const std::vector<int>& JobSignals() {
  static const std::vector<int> kSignals = {SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
  return kSignals;
}

}  // namespace lr::launcher
