#pragma once
/// (pure) What a signal to lr-launch means in the phase the run is in (spec 1.8, L-50 to L-54).
/// The App asks for every signal and executes the answer.

#include <map>
#include <string>
#include <vector>

namespace lr::launcher {

enum class RunPhase {
  kJoining,   ///< no workers yet: meeting the other nodes
  kWorking,   ///< workers run
  kStopping,  ///< workers were told to stop
  kClosing,   ///< this node's workers are gone; the end of the whole run is awaited
};

enum class SignalAction {
  kLeave,              ///< end the join, tell the host, exit 128+n
  kStop,               ///< graceful stop of the whole run with this signal
  kKill,               ///< SIGKILL to this node's workers now
  kGiveUp,             ///< do not wait for the other nodes any longer
  kCheckpoint,         ///< native workers save and go on
  kCheckpointAndStop,  ///< native workers save and stop
  kPreempt,            ///< the same, because the machine is wanted back
  kForward,            ///< to the workers that handle it themselves
  kSuspend,            ///< SIGSTOP to the workers, then stop ourselves as a terminal expects
  kBroadcast,          ///< to every worker
  kNothing,
};

/// --on-signal: what a signal asks for while workers run.
enum class SignalRule { kCheckpoint, kCheckpointAndStop, kPreempt, kForward, kStop, kIgnore };

struct SignalState {
  RunPhase phase = RunPhase::kJoining;
  bool native = false;            ///< the workers speak the worker protocol
  std::vector<int> stop_signals;  ///< --signals-to-handle
  std::map<int, SignalRule> rules = {};
  bool askable = false;  ///< native, or told by --ckpt-signal how to save
};

struct SignalDecision {
  SignalAction action = SignalAction::kNothing;
  std::string reason;
};

SignalDecision DecideSignal(int signal, const SignalState& state);

/// Signals that mean something beside the stop signals: USR1, USR2, TSTP, CONT, WINCH.
const std::vector<int>& JobSignals();

}  // namespace lr::launcher
