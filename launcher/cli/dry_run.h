#pragma once
/// (pure) What --dry-run shows (L-7): every option with the source of its value, where the nodes
/// meet, and what each worker of this node would be started with. Secrets are masked, in
/// variables and in arguments. Called by the launch setup once the plan stands; nothing is started.

#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/plan/worker_variables.h"

namespace lr::launcher {

/// One worker of this node, as far as it is known before the other nodes are.
struct PlannedWorker {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> command;
  Variables variables;    ///< what it gets beside, or other than, the inherited ones
  std::vector<int> cpus;  ///< empty: as the launcher
};

/// The other nodes are taken to be like this one; what they decide together reads "<agreed>".
std::vector<PlannedWorker> PlannedWorkers(const LaunchPlan& plan, const Variables& inherited);

/// With "***" for the values of names that look secret.
Variables MaskedVariables(const Variables& variables);

/// With "***" for the values of options that look secret: --api_key=V, --api_key V.
std::vector<std::string> MaskedCommand(const std::vector<std::string>& command);

/// "command line", "PET_NNODES", "default".
std::string SourceText(const ResolvedOption& option);

std::string DryRunText(const LaunchPlan& plan, const Variables& inherited);

/// One JSON object, indented, with a newline at the end.
std::string DryRunJson(const LaunchPlan& plan, const Variables& inherited);

}  // namespace lr::launcher
