#pragma once
/// From argv to what shall run, before anything is started: options, program, guard against foreign
/// configuration, plan. Called once by main(). Everything that ends here (help, dry run, a mistake,
/// a refusal) is returned as text and exit code.

#include <string>
#include <variant>
#include <vector>

#include "common/contract/foreign_environment.h"
#include "common/contract/worker_environment.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

/// Nothing is started: print and exit.
struct EarlyEnd {
  int exit_code = 0;
  std::string out;  ///< for stdout
  std::string err;  ///< for stderr
};

struct PreparedLaunch {
  LaunchPlan plan;
  std::string foreign_digest;      ///< of the guard, for the plan digest
  std::vector<std::string> lines;  ///< notes and warnings for stderr, without newlines at the end
};

using LaunchSetup = std::variant<PreparedLaunch, EarlyEnd>;

/// `argv` with the name that the program was called by; `random_id` as made by RandomId().
LaunchSetup PrepareLaunch(const std::vector<std::string>& argv,
                          const EnvironmentSnapshot& environment,
                          const std::string& random_id);

/// "0.1.0": of all programs of this build.
std::string BuildVersion();

}  // namespace lr::launcher
