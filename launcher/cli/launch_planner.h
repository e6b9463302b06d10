#pragma once
/// (pure) From the parsed command line and facts of the machine to the launch plan. Called once by
/// main() after the program was found. Errors are usage errors (kInvalidArgument) naming the option
/// as it was spelled.

#include <functional>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/device_count.h"
#include "launcher/cli/numa_binding.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

struct PlanningFacts {
  MachineFacts machine;
  std::function<CpuTopology()> topology;  ///< asked only when an option needs it
  std::function<std::optional<std::string>(const std::string& interface)> interface_address = {};
  std::function<std::string()> full_host_name = {};  ///< asked only under Kubernetes
  EnvironmentReader environment;
  std::string random_id;  ///< at least 12 random digits
};

Result<LaunchPlan> PlanLaunch(const CommandLine& given,
                              ProgramPlan program,
                              const PlanningFacts& machine_facts);

}  // namespace lr::launcher
