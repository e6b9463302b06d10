#include "launcher/cli/dry_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/foreign_environment.h"
#include "launcher/cli/numa_binding.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

constexpr std::string_view kMask = "***";

/// The world as far as it is known before the other nodes are: they are taken to be like this one.
Assignment ExpectedAssignment(const LaunchPlan& plan) {
  Assignment assignment;
  assignment.run_id = plan.run_id.empty() ? "<agreed>" : plan.run_id;
  assignment.world_size = plan.max_nodes * plan.local_size;
  for (int rank = 0; rank < plan.max_nodes; ++rank) {
    assignment.nodes.push_back({.node_id = std::to_string(rank),
                                .host_name = "",
                                .address = "",
                                .node_rank = rank,
                                .local_size = plan.local_size,
                                .first_rank = rank * plan.local_size});
  }
  assignment.master_addr = plan.endpoint.host.empty() ? "<agreed>" : plan.endpoint.host;
  assignment.master_port = plan.endpoint.worker_port;
  return assignment;
}

/// `after` without what `before` has already.
Variables Changed(const Variables& before, const Variables& after) {
  Variables changed;
  for (const auto& [name, value] : after) {
    const auto old = before.find(name);
    if (old == before.end() || old->second != value) {
      const bool free_port = name == "MASTER_PORT" && value == "0";
      changed[name] = free_port ? "<free>" : value;
    }
  }
  return changed;
}

bool OptionLooksSecret(std::string_view argument) {
  if (!argument.starts_with('-')) {
    return false;
  }
  std::string name(argument);
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return LooksSecret(name);
}

std::string EndpointText(const LaunchPlan& plan) {
  const EndpointPlan& endpoint = plan.endpoint;
  const std::string port =
      endpoint.worker_port == 0 ? "a free port" : fmt::format("port {}", endpoint.worker_port);
  const std::string host = endpoint.host.empty() ? "this node" : endpoint.host;
  if (endpoint.standalone) {
    return fmt::format("one node; workers meet at {}, {}", host, port);
  }
  const int first = endpoint.control_port == 0 ? endpoint.worker_port + 1 : endpoint.control_port;
  const std::string control = endpoint.control_port_explicit
                                  ? fmt::format("port {}", first)
                                  : fmt::format("port {} to {}", first, first + 7);
  return fmt::format("nodes meet at {} {} (at most {} s); workers at {}",
                     host,
                     control,
                     endpoint.join_timeout.count(),
                     port);
}

std::string LimitsText(const RendezvousTimes& times) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  return fmt::format(
      "last call {} s (again {} s), commit {} s, heartbeat {} s, suspect {} s, lost {} s, host "
      "lost "
      "{} s",
      seconds(times.last_call),
      seconds(times.reform_last_call),
      seconds(times.commit),
      seconds(times.heartbeat),
      seconds(times.suspect),
      seconds(times.lost),
      seconds(times.host_lost));
}

std::string PlanText(const LaunchPlan& plan) {
  std::vector<std::string> signals;
  for (const int signal : plan.signals) {
    signals.push_back(SignalName(signal));
  }
  return fmt::format(
      "plan\n  scheduler {}\n  nodes     {}\n  workers   {} here\n  meeting   {}\n  limits    {}\n "
      " run id    {}\n "
      " program   {} "
      "({})\n  stop on   {}, killed after {:.1f} s\n",
      plan.scheduler.empty() ? "none" : plan.scheduler,
      plan.max_nodes,
      plan.local_size,
      EndpointText(plan),
      LimitsText(plan.endpoint.times),
      plan.run_id.empty() ? "none given" : plan.run_id,
      plan.program.executable,
      plan.program.kind,
      Join(signals, ", "),
      std::chrono::duration<double>(plan.shutdown_timeout).count());
}

std::string WorkerText(const PlannedWorker& worker, int world_size) {
  std::string text = fmt::format("worker {}: {}\n    rank {} of {}\n",
                                 worker.local_rank,
                                 Join(MaskedCommand(worker.command), " "),
                                 worker.rank,
                                 world_size);
  if (!worker.cpus.empty()) {
    text += fmt::format("    on CPUs {}\n", CpuListText(worker.cpus));
  }
  for (const auto& [name, value] : MaskedVariables(worker.variables)) {
    text += fmt::format("    {}={}\n", name, value);
  }
  return text;
}

}  // namespace

std::vector<PlannedWorker> PlannedWorkers(const LaunchPlan& plan, const Variables& inherited) {
  const Assignment assignment = ExpectedAssignment(plan);
  const NodeFacts node{.node_id = std::to_string(plan.node_rank.value_or(0)),
                       .control_socket = "<run>.sock",
                       .attempt_dir = ""};
  std::vector<PlannedWorker> workers;
  for (int local_rank = 0; local_rank < plan.local_size; ++local_rank) {
    const Variables all = WorkerVariables(inherited, plan, assignment, node, local_rank);
    workers.push_back({.rank = OwnNode(assignment, node.node_id).first_rank + local_rank,
                       .local_rank = local_rank,
                       .command = WorkerArguments(plan, local_rank),
                       .variables = Changed(inherited, all),
                       .cpus = PlacementOf(plan, local_rank).cpus});
  }
  return workers;
}

Variables MaskedVariables(const Variables& variables) {
  Variables masked = variables;
  for (auto& [name, value] : masked) {
    if (LooksSecret(name)) {
      value = kMask;
    }
  }
  return masked;
}

std::vector<std::string> MaskedCommand(const std::vector<std::string>& command) {
  std::vector<std::string> masked;
  bool next_is_secret = false;
  for (const std::string& argument : command) {
    const size_t equals = argument.find('=');
    const bool secret = OptionLooksSecret(argument.substr(0, equals));
    if (secret && equals != std::string::npos) {
      masked.push_back(argument.substr(0, equals + 1) + std::string(kMask));
    } else {
      masked.push_back(next_is_secret && !argument.starts_with('-') ? std::string(kMask)
                                                                    : argument);
    }
    next_is_secret = secret && equals == std::string::npos;
  }
  return masked;
}

std::string SourceText(const ResolvedOption& option) {
  switch (option.source) {
    case ValueSource::kCommandLine:
      return "command line";
    case ValueSource::kEnvironment:
      return option.variable;
    case ValueSource::kDefault:
      return "default";
  }
  return "default";
}

std::string DryRunText(const LaunchPlan& plan, const Variables& inherited) {
  std::string text = "options\n";
  for (const ResolvedOption& option : plan.options) {
    text += fmt::format("  {:<24}{:<32}{}\n",
                        option.name,
                        option.value.empty() ? "-" : option.value,
                        SourceText(option));
  }
  text += PlanText(plan);
  for (const PlannedWorker& worker : PlannedWorkers(plan, inherited)) {
    text += WorkerText(worker, plan.max_nodes * plan.local_size);
  }
  text +=
      fmt::format("Each worker also gets the {} inherited variables; --dry-run=json lists them.\n",
                  inherited.size());
  for (const std::string& note : plan.notes) {
    text += fmt::format("note: {}\n", note);
  }
  return text;
}

}  // namespace lr::launcher
