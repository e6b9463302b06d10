#pragma once
/// (pure) The texts of --help, --version and --dry-run, made from the option table and the plan.

#include <string>

#include "launcher/plan/launch_plan.h"
#include "launcher/plan/worker_variables.h"

namespace lr::launcher {

std::string HelpText();

/// Everything that would happen, with the source of each value; secrets masked (L-7).
std::string DryRunText(const LaunchPlan& plan, const Variables& inherited);

}  // namespace lr::launcher
