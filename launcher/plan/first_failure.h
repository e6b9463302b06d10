#pragma once
/// (pure) Which ending of a run was the cause of the others (S-14). Called by the rendezvous host
/// when it closes a run.

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/plan/failure_label.h"

namespace lr::launcher {

struct FirstFailure {
  std::optional<WorkerEnding> root_cause;  ///< nullopt when no worker failed by itself
  std::vector<WorkerEnding> failures;      ///< every unsuccessful ending, earliest first
  std::string reason;                      ///< one sentence
  bool only_secondary = false;             ///< the first cause itself was not seen
};

/// Drops endings that our own signals caused, sets aside secondary ones and takes the earliest of
/// the rest; when only secondary ones exist, the earliest of those, and says so.
FirstFailure ChooseFirstFailure(std::vector<WorkerEnding> endings);

}  // namespace lr::launcher
