#pragma once
/// (pure) Whether a run goes on after an epoch that did not succeed, and when (S-40 to S-42, exit
/// code 93). Called by the run machine once all workers of the epoch are gone; a run whose ranks
/// all exited 0 is never asked about (S-33). Cannot fail.

#include <chrono>
#include <optional>
#include <string>

#include "launcher/plan/assignment.h"
#include "launcher/plan/run_policy.h"

namespace lr::launcher {

/// Why an epoch ended.
enum class EpochEndKind {
  kWorkerFailed,  ///< uses --max-restarts
  kNodeLost,      ///< uses --max-node-losses
  kMembership,    ///< nodes came or left in order: free
  kPreempted,     ///< the machine is wanted back: free
};

struct EpochEnd {
  EpochEndKind kind = EpochEndKind::kWorkerFailed;
  std::optional<WorkerEnding> root_cause;
  std::optional<TrainingProgress> progress;  ///< nullopt: no worker told any
  std::chrono::nanoseconds ran_for{0};
  int nodes_lost = 0;
  int nodes_left = 1;
  int min_nodes = 1;
};

/// What the earlier epochs of the run leave to judge by.
struct RestartHistory {
  /// A root cause that came early: the same one twice in a row is no accident.
  struct EarlyFailure {
    int rank = 0;
    int code = 0;
  };

  int restarts = 0;  ///< after failures of the program
  int node_losses = 0;
  int in_a_row = 0;  ///< restarts since the run last made progress for long: the back-off
  int idle = 0;      ///< failed attempts in a row that reached nothing new
  std::optional<EarlyFailure> early;
  std::optional<TrainingProgress> best;
};

struct RestartDecision {
  bool again = false;
  bool counts = false;  ///< uses one of --max-restarts
  std::chrono::milliseconds delay{0};
  std::optional<int> exit_code = {};  ///< instead of the failed worker's, when not again
  std::string reason;                 ///< "restart 2 of 3 in 4.2 s"; empty: nothing to say
};

/// `uniform` in [0, 1): where in the jitter of the pause.
RestartDecision DecideRestart(const EpochEnd& end,
                              const RestartHistory& history,
                              const RestartRules& rules,
                              double uniform);

/// The history once the decision is taken.
RestartHistory Remember(RestartHistory history, const EpochEnd& end, const RestartDecision& taken);

}  // namespace lr::launcher
