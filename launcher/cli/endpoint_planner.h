#pragma once
/// (pure) Where the nodes of a run meet, where its workers' store will be, and the run's identity,
/// from the rendezvous options of torchrun (spec 1.2, R-6, R-11, R-31). Part of PlanLaunch().

#include <string>
#include <vector>

#include "common/base/status.h"
#include "launcher/cli/command_line.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

struct RendezvousPlan {
  EndpointPlan endpoint;
  std::string run_id;
  std::vector<std::string> notes;
};

Result<RendezvousPlan> PlanRendezvous(const CommandLine& line,
                                      int min_nodes,
                                      int max_nodes,
                                      const std::string& random_id);

}  // namespace lr::launcher
