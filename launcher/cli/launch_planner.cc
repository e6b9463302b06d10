#include "launcher/cli/launch_planner.h"

#include <utility>

#include "common/base/text.h"
#include "launcher/cli/accelerate_planner.h"
#include "launcher/cli/endpoint_planner.h"
#include "launcher/cli/engine_facts.h"
#include "launcher/cli/log_options.h"
#include "launcher/cli/option_values.h"
#include "launcher/cli/placement_planner.h"
#include "launcher/cli/preempt_options.h"
#include "launcher/cli/scheduler_planner.h"

namespace lr::launcher {
namespace {

/// torchrun's other source of --shutdown-timeout, behind the command line and its PET variable.
constexpr std::string_view kShutdownVariable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";

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

/// "ADDR", "@INTERFACE" or several of them.
Status PlanLocalAddresses(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  constexpr size_t kMost = 8;
  const std::string spelled = line.spelled(Option::kLocalAddr);
  if (line.text(Option::kLocalAddr).empty()) {
    return {};
  }
  for (const std::string& given : Split(line.text(Option::kLocalAddr), ',')) {
    std::string address(Trim(given));
    if (address.starts_with('@')) {
      const std::string interface = address.substr(1);
      const std::optional<std::string> found = facts.interface_address(interface);
      if (!found) {
        return InvalidArgument(
            "{}: this node has no interface {} with an address for its peers", spelled, interface);
      }
      address = *found;
    }
    if (address.empty() || address.find('@') != std::string::npos) {
      return InvalidArgument("{}: '{}' is neither an address nor @INTERFACE", spelled, given);
    }
    plan.local_addrs.push_back(std::move(address));
  }
  return plan.local_addrs.size() <= kMost
             ? Status()
             : InvalidArgument("{}: at most {} addresses", spelled, kMost);
}

Status PlanEndpoint(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  LR_ASSIGN(RendezvousPlan rendezvous,
            PlanRendezvous(line, plan.min_nodes, plan.max_nodes, facts.random_id));
  plan.endpoint = rendezvous.endpoint;
  if (line.text(Option::kRdzvBackend) == "static") {
    plan.min_nodes = plan.max_nodes;
  }
  plan.run_id = rendezvous.run_id;
  plan.notes.insert(plan.notes.end(), rendezvous.notes.begin(), rendezvous.notes.end());
  return PlanLocalAddresses(line, facts, plan);
}

/// without anything a run of several machines works as under torchrun, and says so once.
Status PlanTrust(const CommandLine& line, LaunchPlan& plan) {
  TrustPlan& trust = plan.endpoint.trust;
  trust.token_file = line.text(Option::kRdzvTokenFile);
  const std::string& host = plan.endpoint.host;
  const bool here = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (plan.endpoint.standalone || here || !trust.token_file.empty() || trust.tls_mutual) {
    return {};
  }
  if (line.flag(Option::kRequireAuth)) {
    return InvalidArgument(
        "{}: give every node the same --rdzv-token-file, or mutual TLS by "
        "--rdzv-conf=tls_ca=…,tls_cert=…,tls_key=…,tls_mutual=1",
        line.spelled(Option::kRequireAuth));
  }
  plan.notes.push_back(fmt::format(
      "whoever reaches {} may join this run; --rdzv-token-file lets only those in who have it",
      host));
  return {};
}

Status PlanStopping(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  std::string timeout = line.text(Option::kShutdownTimeout);
  std::string spelled = line.spelled(Option::kShutdownTimeout);
  if (const auto inherited = facts.environment(std::string(kShutdownVariable));
      inherited && !line.has(Option::kShutdownTimeout)) {
    timeout = *inherited;
    spelled = fmt::format("{}={}", kShutdownVariable, timeout);
  }
  LR_TRY(PlanPreemption(line, facts.environment, plan));
  plan.shutdown_auto = timeout == "auto";
  if (!plan.shutdown_auto) {
    LR_ASSIGN(plan.shutdown_timeout, ReadSeconds(timeout, spelled));
  } else if (plan.preempt.grace) {
    plan.shutdown_timeout = GraceWithin(std::chrono::hours(24 * 7), plan.preempt.grace);
  } else {
    plan.notes.push_back(fmt::format(
        "{}: what the scheduler grants is not known (--grace): 30 s, or what a notice leaves",
        spelled));
  }
  LR_TRY(ReadSeconds(line.text(Option::kMonitorInterval), line.spelled(Option::kMonitorInterval)));
  plan.signals_text = line.text(Option::kSignalsToHandle);
  LR_ASSIGN(plan.signals, ReadSignals(plan.signals_text, line.spelled(Option::kSignalsToHandle)));
  LR_TRY(CheckWord(
      line.text(Option::kExitCode), line.spelled(Option::kExitCode), {"worker", "torchrun"}));
  plan.fold_exit_code = line.text(Option::kExitCode) == "torchrun";
  return {};
}

Status PlanWorkers(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  if (line.has(Option::kPassLocalRank)) {
    const std::string name = line.text(Option::kPassLocalRank);
    plan.local_rank_option = name.empty() ? "--local-rank" : name;
    LR_TRY(CheckWord(plan.local_rank_option,
                     line.spelled(Option::kPassLocalRank),
                     {"--local-rank", "--local_rank"}));
  }
  LR_ASSIGN(PlacementPlan placement, PlanPlacement(line, plan.local_size, facts));
  plan.placements = std::move(placement.workers);
  plan.notes.insert(plan.notes.end(), placement.notes.begin(), placement.notes.end());
  if (line.flag(Option::kRunPath) && line.flag(Option::kNoPython)) {
    plan.notes.push_back(fmt::format("{} has no effect with {}",
                                     line.spelled(Option::kNoPython),
                                     line.spelled(Option::kRunPath)));
  }
  return {};
}

Status PlanDryRun(const CommandLine& line, LaunchPlan& plan) {
  if (!line.has(Option::kDryRun)) {
    return {};
  }
  const std::string form = line.text(Option::kDryRun).empty() ? "text" : line.text(Option::kDryRun);
  LR_TRY(CheckWord(form, line.spelled(Option::kDryRun), {"text", "json"}));
  plan.dry_run = form == "json" ? DryRun::kJson : DryRun::kText;
  return {};
}

Status PlanEvents(const CommandLine& line, LaunchPlan& plan) {
  constexpr std::string_view kFile = "file:";
  const std::string handler = line.text(Option::kEventLogHandler);
  if (handler.starts_with(kFile) && handler.size() > kFile.size()) {
    plan.event_copies.file = handler.substr(kFile.size());
    return {};
  }
  LR_TRY(
      CheckWord(handler, line.spelled(Option::kEventLogHandler), {"null", "console", "file:PATH"}));
  plan.event_copies.console = handler == "console";
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

/// Boards come once a second, so that a shorter limit would see hangs where there are none.
Result<std::chrono::milliseconds> ReadHangLimit(const CommandLine& line, Option option) {
  constexpr std::chrono::seconds kShortest{3};
  LR_ASSIGN(const auto limit, ReadSeconds(line.text(option), line.spelled(option)));
  if (limit < kShortest) {
    return InvalidArgument(
        "{}: {} s is too short: progress is looked at once a second; give {} s "
        "or more",
        line.spelled(option),
        line.text(option),
        kShortest.count());
  }
  return limit;
}

Status PlanHang(const CommandLine& line, LaunchPlan& plan) {
  HangRules& rules = plan.policy.hang;
  rules.on = line.text(Option::kHangTimeout) != "off";
  if (rules.on) {
    LR_ASSIGN(rules.shortest, ReadHangLimit(line, Option::kHangTimeout));
  }
  LR_ASSIGN(rules.first_step, ReadHangLimit(line, Option::kHangFirstStep));
  LR_ASSIGN(rules.checkpoint, ReadHangLimit(line, Option::kHangCheckpoint));
  const std::string action = line.text(Option::kHangAction);
  LR_TRY(
      CheckWord(action, line.spelled(Option::kHangAction), {"auto", "report", "restart", "stop"}));
  for (const HangAction one :
       {HangAction::kAuto, HangAction::kReport, HangAction::kRestart, HangAction::kStop}) {
    rules.action = action == HangActionName(one) ? one : rules.action;
  }
  return {};
}

Status PlanRest(const CommandLine& line, const PlanningFacts& facts, LaunchPlan& plan) {
  LR_TRY(CheckWord(line.text(Option::kStartMethod),
                   line.spelled(Option::kStartMethod),
                   {"spawn", "fork", "forkserver"}));
  plan.role = line.text(Option::kRole);
  if (plan.role.empty() || plan.role.find_first_of("\r\n") != std::string::npos) {
    return InvalidArgument("{}: must be a name on one line", line.spelled(Option::kRole));
  }
  if (plan.program.native) {
    const auto first =
        plan.program.argv.begin() + static_cast<std::ptrdiff_t>(plan.program.first_argument);
    plan.program.output_dir = OutputDirFromArguments({first, plan.program.argv.end()});
  }
  plan.log_dir = line.text(Option::kLogDir);
  LR_ASSIGN(plan.logs, ReadLogPlan(line, facts.environment));
  plan.quiet = line.flag(Option::kQuiet);
  plan.result_file = line.text(Option::kResultFile);
  LR_TRY(PlanEvents(line, plan));
  return PlanDryRun(line, plan);
}

std::string ShownValue(const CommandLine& line, const OptionSpec& spec) {
  if (spec.kind == ValueKind::kFlag) {
    return line.flag(spec.option) ? "on" : "off";
  }
  std::string text = line.text(spec.option);
  if (spec.kind == ValueKind::kOptionalValue && text.empty()) {
    return line.has(spec.option) ? "on" : "off";
  }
  return text;
}

/// Every option with the source of its value, for the dry run.
std::vector<ResolvedOption> Resolved(const CommandLine& line, const PlanningFacts& facts) {
  std::vector<ResolvedOption> options;
  for (const OptionSpec& spec : OptionTable()) {
    if (OnlyPrints(spec.option)) {
      continue;
    }
    ResolvedOption option{.name = std::string(spec.name),
                          .value = ShownValue(line, spec),
                          .source = ValueSource::kDefault,
                          .variable = ""};
    const auto inherited = facts.environment(std::string(kShutdownVariable));
    if (line.has(spec.option)) {
      const OptionValue& given = line.given.at(spec.option);
      option.source = given.source;
      option.variable = given.spelled.substr(0, given.spelled.find('='));
    } else if (spec.option == Option::kShutdownTimeout && inherited) {
      option.value = *inherited;
      option.source = ValueSource::kEnvironment;
      option.variable = kShutdownVariable;
    }
    options.push_back(std::move(option));
  }
  return options;
}

/// What is still open and the scheduler knows (J-40).
Status PlanScheduler(const PlanningFacts& facts, CommandLine& line, LaunchPlan& plan) {
  const bool pod = facts.environment("JOB_COMPLETION_INDEX") && facts.full_host_name;
  LR_ASSIGN(const std::optional<Scheduler> scheduler,
            ReadScheduler(facts.environment, pod ? facts.full_host_name() : ""));
  LR_ASSIGN(SchedulerPlan supplied, ApplyScheduler(scheduler, line));
  plan.scheduler = std::move(supplied.name);
  plan.scheduler_index = supplied.index;
  plan.notes.insert(plan.notes.end(), supplied.notes.begin(), supplied.notes.end());
  return CheckMachineRank(line);
}

}  // namespace

Result<LaunchPlan> PlanLaunch(const CommandLine& given,
                              ProgramPlan program,
                              const PlanningFacts& machine_facts) {
  PlanningFacts facts = machine_facts;
  facts.environment = WithChosenDevices(given, machine_facts);
  LR_ASSIGN(CommandLine line, TranslateAccelerate(given, facts));
  LaunchPlan plan;
  plan.program = std::move(program);
  plan.notes = line.notes;
  LR_TRY(PlanScheduler(facts, line, plan));
  LR_TRY(PlanSizes(line, facts, plan));
  LR_TRY(PlanEndpoint(line, facts, plan));
  LR_TRY(PlanTrust(line, plan));
  LR_TRY(PlanStopping(line, facts, plan));
  LR_TRY(PlanPolicy(line, plan));
  LR_TRY(PlanHang(line, plan));
  LR_TRY(PlanRest(line, facts, plan));
  LR_TRY(PlanWorkers(line, facts, plan));
  plan.options = Resolved(line, facts);
  return plan;
}

}  // namespace lr::launcher
