#pragma once
/// (pure) --rdzv-conf: torchrun's keys and ours (spec 1.2, 3.7). A key changes a limit, or a note
/// says why it has no effect here; unknown keys are mistakes. Part of PlanRendezvous().

#include <string>
#include <vector>

#include "common/base/status.h"
#include "launcher/cli/command_line.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

Status ApplyRendezvousConf(const CommandLine& line,
                           EndpointPlan& endpoint,
                           std::vector<std::string>& notes);

}  // namespace lr::launcher
