#include "launcher/cli/launch_planner.h"

#include <utility>

#include "common/base/text.h"
#include "launcher/cli/endpoint_planner.h"
#include "launcher/cli/option_values.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

Status PlanSizes(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  LR_ASSIGN(const auto range,
            ReadNodeRange(line.text(Option::kNnodes), line.spelled(Option::kNnodes)));
  plan.min_nodes = range.first;
  plan.max_nodes = range.second;
  LR_ASSIGN(ProcessCount processes,
            CountProcesses(line.text(Option::kNprocPerNode),
                           line.spelled(Option::kNprocPerNode),
                           facts.machine,
                           facts.environment));
  plan.local_size = processes.count;
  plan.notes.insert(plan.notes.end(), processes.notes.begin(), processes.notes.end());
  if (line.has(Option::kNodeRank)) {
    LR_ASSIGN(
        plan.node_rank,
        ReadWhole(
            line.text(Option::kNodeRank), line.spelled(Option::kNodeRank), 0, plan.max_nodes - 1));
  }
  return {};
}

Status PlanEndpoint(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  LR_ASSIGN(
      RendezvousPlan rendezvous,
      PlanRendezvous(line, plan.min_nodes, plan.max_nodes, facts.environment, facts.random_id));
  plan.endpoint = rendezvous.endpoint;
  plan.policy = rendezvous.times;
  if (line.text(Option::kRdzvBackend) == "static") {
    plan.min_nodes = plan.max_nodes;
  }
  plan.run_id = rendezvous.run_id;
  plan.notes.insert(plan.notes.end(), rendezvous.notes.begin(), rendezvous.notes.end());
  plan.local_addr = line.text(Option::kLocalAddr);
  if (plan.local_addr.starts_with('@')) {
    return InvalidArgument("{}: interface names are not in this version; give an address",
                           line.spelled(Option::kLocalAddr));
  }
  return {};
}

Status PlanStopping(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  std::string timeout = line.text(Option::kShutdownTimeout);
  std::string spelled = line.spelled(Option::kShutdownTimeout);
  if (const auto inherited = facts.environment("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
      inherited && !line.has(Option::kShutdownTimeout)) {
    timeout = *inherited;
    spelled = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=" + timeout;
  }
  if (timeout == "auto") {
    return InvalidArgument("{}: auto is not in this version; give seconds", spelled);
  }
  LR_ASSIGN(plan.shutdown_timeout, ReadSeconds(timeout, spelled));
  LR_TRY(ReadSeconds(line.text(Option::kMonitorInterval), line.spelled(Option::kMonitorInterval)));
  plan.signals_text = line.text(Option::kSignalsToHandle);
  LR_ASSIGN(plan.signals, ReadSignals(plan.signals_text, line.spelled(Option::kSignalsToHandle)));
  LR_TRY(CheckWord(
      line.text(Option::kExitCode), line.spelled(Option::kExitCode), {"worker", "torchrun"}));
  plan.fold_exit_code = line.text(Option::kExitCode) == "torchrun";
  return {};
}

/// Restarts, lost nodes, and nodes beyond those at work.
Status PlanPolicy(const CommandLine& line, LaunchPlan& plan) {
  constexpr int kMost = 1'000'000;
  RestartRules& restarts = plan.policy.restarts;
  LR_ASSIGN(
      restarts.max_restarts,
      ReadWhole(line.text(Option::kMaxRestarts), line.spelled(Option::kMaxRestarts), 0, kMost));
  if (line.has(Option::kMaxNodeLosses)) {
    LR_ASSIGN(
        restarts.max_node_losses,
        ReadWhole(
            line.text(Option::kMaxNodeLosses), line.spelled(Option::kMaxNodeLosses), 0, kMost));
  }
  restarts.always = line.flag(Option::kAlwaysRestart);
  const std::string grow = line.text(Option::kGrow);
  LR_TRY(CheckWord(grow, line.spelled(Option::kGrow), {"at-checkpoint", "immediate", "never"}));
  for (const GrowRule rule : {GrowRule::kAtCheckpoint, GrowRule::kImmediate, GrowRule::kNever}) {
    plan.policy.grow = grow == GrowRuleName(rule) ? rule : plan.policy.grow;
  }
  LR_ASSIGN(plan.policy.spares,
            ReadWhole(line.text(Option::kSpares), line.spelled(Option::kSpares), 0, 16'384));
  plan.policy.stop_limit = plan.shutdown_timeout + std::chrono::seconds(60);
  return {};
}

Status PlanRest(const CommandLine& line, LaunchPlan& plan) {
  LR_TRY(CheckWord(line.text(Option::kStartMethod),
                   line.spelled(Option::kStartMethod),
                   {"spawn", "fork", "forkserver"}));
  plan.role = line.text(Option::kRole);
  if (plan.role.empty() || plan.role.find_first_of("\r\n") != std::string::npos) {
    return InvalidArgument("{}: must be a name on one line", line.spelled(Option::kRole));
  }
  plan.log_dir = line.text(Option::kLogDir);
  plan.dry_run = line.flag(Option::kDryRun);
  return {};
}

std::vector<ResolvedOption> Resolved(const CommandLine& line) {
  std::vector<ResolvedOption> options;
  for (const OptionSpec& spec : OptionTable()) {
    if (spec.option == Option::kHelp || spec.option == Option::kVersion) {
      continue;
    }
    const auto given = line.given.find(spec.option);
    const bool flag = spec.kind == ValueKind::kFlag;
    options.push_back(
        {.name = std::string(spec.name),
         .value = flag ? (line.flag(spec.option) ? "on" : "off") : line.text(spec.option),
         .source = given == line.given.end() ? ValueSource::kDefault : given->second.source,
         .variable = std::string(spec.variable)});
  }
  return options;
}

}  // namespace

Result<LaunchPlan> PlanLaunch(const CommandLine& line,
                              ProgramPlan program,
                              const PlanningFacts& facts) {
  LaunchPlan plan;
  plan.program = std::move(program);
  plan.notes = line.notes;
  LR_TRY(PlanSizes(line, facts, plan));
  LR_TRY(PlanEndpoint(line, facts, plan));
  LR_TRY(PlanStopping(line, facts, plan));
  LR_TRY(PlanPolicy(line, plan));
  LR_TRY(PlanRest(line, plan));
  plan.options = Resolved(line);
  return plan;
}

}  // namespace lr::launcher
