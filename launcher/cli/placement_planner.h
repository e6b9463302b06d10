#pragma once
/// (pure) What each worker of this node gets by the options of the launcher: its device, its
/// processors and threads (spec 1.2 --virtual-local-rank, --numa-binding; L-13, E-4). Part of
/// PlanLaunch(). Errors are usage errors naming the option as it was spelled.

#include <string>
#include <vector>

#include "common/base/status.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/launch_planner.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

struct PlacementPlan {
  std::vector<WorkerPlacement> workers;  ///< by local rank
  std::vector<std::string> notes;
};

Result<PlacementPlan> PlanPlacement(const CommandLine& line,
                                    int local_size,
                                    const PlanningFacts& facts);

}  // namespace lr::launcher
