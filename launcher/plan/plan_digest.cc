#include "launcher/plan/plan_digest.h"

#include <fmt/format.h>

#include "common/contract/fingerprint.h"

namespace lr::launcher {
namespace {

/// The interpreter and the program's path may differ between nodes, so they are left out.
std::string ArgumentsDigest(const ProgramPlan& program) {
  std::string joined;
  size_t count = 0;
  for (size_t i = program.first_argument; i < program.argv.size(); ++i, ++count) {
    joined += program.argv[i];
    joined += '\0';
  }
  return fmt::format("{} arguments, fingerprint {}", count, Fingerprint(joined));
}

std::string NumberOrNone(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "none";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> PlanDigest(const LaunchPlan& plan,
                                                            const std::string& foreign_environment,
                                                            const std::string& build) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {"--nproc-per-node", std::to_string(plan.local_size)},
      {"--role", plan.role},
      {"--max-restarts", std::to_string(plan.policy.restarts.max_restarts)},
      {"--max-node-losses", NumberOrNone(plan.policy.restarts.max_node_losses)},
      {"--grow", std::string(GrowRuleName(plan.policy.grow))},
      {"--spares", std::to_string(plan.policy.spares)},
      {"the program's kind", plan.program.kind},
      {"the program's arguments", ArgumentsDigest(plan.program)},
  };
  if (plan.program.native) {
    fields.emplace_back("the build", build);
    fields.emplace_back("the foreign environment variables", foreign_environment);
  }
  return fields;
}

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace lr::launcher
