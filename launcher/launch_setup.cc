#include "launcher/launch_setup.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"
#include "launcher/cli/accelerate_config.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/completion_script.h"
#include "launcher/cli/dialect.h"
#include "launcher/cli/dry_run.h"
#include "launcher/cli/engine_facts.h"
#include "launcher/cli/entry_point.h"
#include "launcher/cli/help_text.h"
#include "launcher/cli/launch_planner.h"
#include "launcher/cli/machine_probe.h"
#include "launcher/cli/option_values.h"
#include "launcher/cli/topology_probe.h"
#include "launcher/plan/worker_variables.h"

namespace lr::launcher {
namespace {

EarlyEnd Mistake(const Status& status) {
  const bool configuration = status.code() == StatusCode::kFailedPrecondition;
  return {.exit_code = configuration ? kExitConfigRefused : kExitUsage,
          .out = "",
          .err = fmt::format("lr-launch: error: {}\n", status.message())};
}

/// What --accelerate-env and the program's kind make of the foreign variables.
struct Guard {
  ForeignEnvironmentReport report;
  std::string digest = "not checked";
  bool refused = false;
  std::string warning;
};

Result<Guard> CheckForeign(const CommandLine& line,
                           const ProgramPlan& program,
                           const EnvironmentSnapshot& environment) {
  const std::string word = line.text(Option::kAccelerateEnv);
  LR_TRY(
      CheckWord(word, line.spelled(Option::kAccelerateEnv), {"auto", "refuse", "warn", "allow"}));
  Guard guard;
  if (word == "allow" || (word == "auto" && !program.native)) {
    return guard;
  }
  const auto first = program.argv.begin() + static_cast<std::ptrdiff_t>(program.first_argument);
  const ResolvedEngineFacts facts =
      program.native ? FactsFromArguments({first, program.argv.end()}) : ResolvedEngineFacts{};
  const ForeignPolicy policy = word == "refuse" ? ForeignPolicy::kRefuse
                               : word == "warn" ? ForeignPolicy::kWarn
                                                : ForeignPolicy::kAuto;
  guard.report = CheckForeignEnvironment(environment, facts, policy);
  guard.digest = ForeignEnvironmentDigest(guard.report);
  guard.refused = guard.report.refused();
  guard.warning = guard.refused ? "" : ForeignWarningText(guard.report);
  return guard;
}

struct Steps {
  const std::vector<std::string>& argv;
  const EnvironmentSnapshot& environment;
  const std::string& random_id;
};

Result<LaunchSetup> Prepare(const Steps& input) {
  const EnvironmentReader reader = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = input.environment.find(name);
    return found == input.environment.end() ? std::nullopt : std::optional(found->second);
  };
  LR_ASSIGN(const Invocation invocation, ReadInvocation(input.argv));
  LR_ASSIGN(const CommandLine line,
            ParseCommandLine(invocation.arguments, reader, invocation.dialect));
  if (line.flag(Option::kHelp)) {
    return LaunchSetup(EarlyEnd{.exit_code = kExitOk, .out = HelpText(), .err = ""});
  }
  if (line.flag(Option::kVersion)) {
    return LaunchSetup(EarlyEnd{
        .exit_code = kExitOk, .out = fmt::format("lr-launch {}\n", BuildVersion()), .err = ""});
  }
  if (line.has(Option::kPrintCompletion)) {
    LR_ASSIGN(std::string script,
              CompletionScript(line.text(Option::kPrintCompletion),
                               line.spelled(Option::kPrintCompletion)));
    return LaunchSetup(EarlyEnd{.exit_code = kExitOk, .out = std::move(script), .err = ""});
  }
  LR_ASSIGN(ProgramPlan program,
            ResolveEntryPoint({.program = line.program,
                               .module = line.flag(Option::kModule),
                               .no_python = line.flag(Option::kNoPython),
                               .run_path = line.flag(Option::kRunPath)},
                              reader));
  LR_ASSIGN(const Guard guard, CheckForeign(line, program, input.environment));
  if (guard.refused) {
    return LaunchSetup(EarlyEnd{.exit_code = kExitConfigRefused,
                                .out = "",
                                .err = ForeignRefusalText(guard.report) + "\n"});
  }
  LR_ASSIGN(LaunchPlan plan,
            PlanLaunch(line,
                       std::move(program),
                       {.machine = ProbeMachine(""),
                        .topology = [] { return ProbeTopology("", AllowedCpus()); },
                        .interface_address = InterfaceAddress,
                        .full_host_name = [] { return FullHostName(""); },
                        .environment = reader,
                        .random_id = input.random_id}));
  if (line.dialect == Dialect::kAccelerate) {
    if (const auto config = FindAccelerateConfig(reader)) {
      plan.notes.push_back(
          fmt::format("{} is ignored: configuration files of accelerate are not read", *config));
    }
  }
  if (plan.dry_run != DryRun::kOff) {
    const std::string text = plan.dry_run == DryRun::kJson ? DryRunJson(plan, input.environment)
                                                           : DryRunText(plan, input.environment);
    return LaunchSetup(EarlyEnd{.exit_code = kExitOk, .out = text, .err = ""});
  }
  PreparedLaunch prepared{.plan = std::move(plan), .foreign_digest = guard.digest, .lines = {}};
  for (const std::string& note : prepared.plan.notes) {
    prepared.lines.push_back("lr-launch: note: " + note);
  }
  for (const std::string& note : EnvironmentNotes(input.environment, prepared.plan)) {
    prepared.lines.push_back("lr-launch: note: " + note);
  }
  if (!guard.warning.empty()) {
    prepared.lines.push_back(guard.warning);
  }
  return LaunchSetup(std::move(prepared));
}

}  // namespace

LaunchSetup PrepareLaunch(const std::vector<std::string>& argv,
                          const EnvironmentSnapshot& environment,
                          const std::string& random_id) {
  Result<LaunchSetup> setup =
      Prepare({.argv = argv, .environment = environment, .random_id = random_id});
  if (!setup.ok()) {
    return Mistake(setup.status());
  }
  return std::move(setup).value();
}

std::string BuildVersion() {
  return LR_VERSION;
}

}  // namespace lr::launcher
