#pragma once
/// (pure) How one epoch ended, from what its nodes told: success, the first cause over all nodes, a
/// lost node, or a stop on request (S-14, S-33). Called by the run machine once all workers are
/// gone.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/rendezvous/run_types.h"

namespace lr::launcher {

struct EpochFacts {
  const std::map<int, WorkerEnding>& endings;  ///< by rank
  const std::optional<StopOrder>& stop;        ///< nullopt: all ended by themselves
  const std::vector<std::string>& lost;        ///< nodes lost while workers ran, with the reason
  int world_size = 0;
  bool growing = false;  ///< the workers were asked to stop at a checkpoint for newcomers
  bool saved = false;    ///< since the stop a checkpoint became complete
};

RunOutcome DecideOutcome(const EpochFacts& facts);

/// 85 or 86.
int PreemptedCode(bool saved);

/// "rank 3 on node 1 (gpu07) ended with exit code 7".
std::string DescribeWho(const WorkerEnding& ending);

}  // namespace lr::launcher
