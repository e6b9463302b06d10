#pragma once
/// (pure) What a scheduler's environment supplies of the options that place this node among others
/// (J-40, R-11): number of nodes, node rank, endpoint, run id. What the command line or PET_*
/// variables say always wins. Part of PlanLaunch(). Fails with INVALID_ARGUMENT where the scheduler
/// started the launchers in a way that cannot work.

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/scheduler.h"

namespace lr::launcher {

struct SchedulerPlan {
  std::string name;          ///< for people; empty: no scheduler
  std::optional<int> index;  ///< of this node among the run's, where ranks do not bind (R-22)
  std::vector<std::string> notes;
};

/// Fills in what `line` leaves open; each value's `spelled` names the variable that it comes from.
Result<SchedulerPlan> ApplyScheduler(const std::optional<Scheduler>& scheduler, CommandLine& line);

}  // namespace lr::launcher
