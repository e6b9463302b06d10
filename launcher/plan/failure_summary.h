#pragma once
/// (pure) The text that a failed run ends with: torchrun's block, whose shape log scrapers know
/// (L-40), then ours with the most likely cause and what is known about it. Printed by every node's
/// launcher.

#include <cstdint>
#include <map>
#include <string>

#include "launcher/plan/assignment.h"

namespace lr::launcher {

/// What is known beyond the endings.
struct FailureContext {
  std::string program;                ///< as torchrun titles its block: the path or module given
  std::string run_directory = {};     ///< where the record is; empty: none
  std::map<int, int64_t> steps = {};  ///< last known step of native workers, by rank
  int64_t checkpoint_step = 0;        ///< newest complete checkpoint known; 0: none
  std::string hang = {};  ///< stacks of the ranks that hang, ending in a newline; or empty
};

/// The whole text, ending in a newline.
std::string FailureSummary(const RunOutcome& outcome, const FailureContext& context);

}  // namespace lr::launcher
