#pragma once
/// (pure) What the options about requested checkpoints and pre-emption come to.

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "launcher/cli/command_line.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

/// Signal rules, grace, time limit, watch and what happens to late saves.
Status PlanPreemption(const CommandLine& line,
                      const EnvironmentReader& environment,
                      LaunchPlan& plan);

}  // namespace lr::launcher
