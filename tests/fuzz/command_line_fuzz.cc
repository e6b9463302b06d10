// libFuzzer target: any bytes as the command line of lr-launch, lines being words: first variables
// (NAME=VALUE) up to an empty line, then argv. Parser and planner must answer; PROGRAM and what
// follows it must arrive untouched.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string_view>

#include "common/base/text.h"
#include "launcher/cli/dialect.h"
#include "launcher/cli/dry_run.h"
#include "launcher/cli/launch_planner.h"

namespace {

using namespace lr::launcher;

struct Words {
  std::map<std::string, std::string> variables;
  std::vector<std::string> argv;
};

Words Split(std::string_view text) {
  Words words;
  bool arguments = false;
  for (const std::string& line : lr::Split(text, '\n')) {
    if (arguments) {
      words.argv.push_back(line);
    } else if (line.empty()) {
      arguments = true;
    } else if (const size_t equals = line.find('='); equals != std::string::npos) {
      words.variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  return words;
}

PlanningFacts Facts(const lr::EnvironmentReader& environment) {
  return {.machine = {.nvidia_devices = 2, .online_cpus = 4, .affinity_cpus = 4},
          .topology =
              [] {
                CpuTopology topology{.cpus = {}, .device_nodes = {0, 1}};
                for (int id = 0; id < 4; ++id) {
                  topology.cpus.push_back({.id = id, .core = id, .node = id / 2});
                }
                return topology;
              },
          .interface_address = [](const std::string& name) -> std::optional<std::string> {
            return name == "eth0" ? std::optional<std::string>("10.0.0.9") : std::nullopt;
          },
          .environment = environment,
          .random_id = "0123456789abcdef0123456789abcdef"};
}

void CheckProgram(const CommandLine& line, const std::vector<std::string>& arguments) {
  if (line.program.size() > arguments.size() ||
      !std::equal(line.program.rbegin(), line.program.rend(), arguments.rbegin())) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Words words = Split(std::string_view(reinterpret_cast<const char*>(data), size));
  const lr::Result<Invocation> invocation = ReadInvocation(words.argv);
  if (!invocation.ok()) {
    return 0;
  }
  const lr::EnvironmentReader environment =
      [&](const std::string& name) -> std::optional<std::string> {
    const auto found = words.variables.find(name);
    return found == words.variables.end() ? std::nullopt : std::optional(found->second);
  };
  const lr::Result<CommandLine> line =
      ParseCommandLine(invocation->arguments, environment, invocation->dialect);
  if (!line.ok()) {
    return 0;
  }
  CheckProgram(*line, invocation->arguments);
  ProgramPlan program;
  program.argv = line->program;
  program.first_argument = std::min<size_t>(1, program.argv.size());
  const lr::Result<LaunchPlan> plan = PlanLaunch(*line, program, Facts(environment));
  if (plan.ok() && plan->local_size <= 2 && plan->max_nodes <= 4) {
    DryRunText(*plan, words.variables);
    DryRunJson(*plan, words.variables);
  }
  return 0;
}
