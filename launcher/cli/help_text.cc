#include "launcher/cli/help_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/foreign_environment.h"
#include "launcher/cli/option_table.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

constexpr size_t kIndent = 30;
constexpr size_t kWidth = 100;

constexpr std::string_view kIntroduction =
    R"(usage: lr-launch [options] PROGRAM [arguments of PROGRAM]

Starts PROGRAM once per worker, here and on the other nodes of the run, tells each worker its rank, and ends all of
them when one fails. Takes torchrun's options; with dashes or underscores. Everything after PROGRAM is PROGRAM's own.

  one machine, two workers      lr-launch --nproc-per-node=2 train.py --lr 0.1
  one worker per GPU            lr-launch --nproc-per-node=gpu lerobot-train --policy.type=act ...
  two machines, on each of them lr-launch --nnodes=2 --node-rank=0|1 --nproc-per-node=8 --rdzv-endpoint=NODE0 train.py
  what would happen?            lr-launch --dry-run --nproc-per-node=2 train.py
)";

constexpr std::string_view kClosing = R"(
PROGRAM is a compiled program or a script with a #! line (executed as it is), a Python script (run with the active
Python and -u), a module (-m), or the name of one of these in PATH.

Each option can also come from its PET_ variable; the command line wins. Options of the trainer
(--parallelism.*, --accelerator.*, --policy.*) go after PROGRAM.

Exit code: 0 when all workers of all nodes succeeded; the failed worker's own code, or 128+n for signal n; 2 usage,
75 nodes missing, 76 refused by the run, 78 configuration refused, 70 error of the launcher.
)";

/// `text` in lines that fit, each after the first indented.
std::string Wrapped(std::string_view text) {
  std::string result;
  size_t column = kIndent;
  for (const std::string& word : Split(text, ' ')) {
    if (column + word.size() + 1 > kWidth) {
      result += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string OptionText(const OptionSpec& spec) {
  const std::string left = fmt::format("  {}{}{}{}{}",
                                       spec.short_name,
                                       spec.short_name.empty() ? "" : ", ",
                                       spec.name,
                                       spec.kind == ValueKind::kValue ? "=" : "",
                                       spec.metavar);
  std::string help(spec.help);
  std::vector<std::string> extras;
  if (!spec.fallback.empty()) {
    extras.push_back("default " + std::string(spec.fallback));
  }
  if (!spec.variable.empty()) {
    extras.emplace_back(spec.variable);
  }
  if (!extras.empty()) {
    help += " (" + Join(extras, ", ") + ")";
  }
  const bool fits = left.size() + 2 <= kIndent;
  return left +
         (fits ? std::string(kIndent - left.size(), ' ') : "\n" + std::string(kIndent, ' ')) +
         Wrapped(help) + "\n";
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

std::string EndpointText(const LaunchPlan& plan) {
  const EndpointPlan& endpoint = plan.endpoint;
  const std::string port =
      endpoint.worker_port == 0 ? "a free port" : fmt::format("port {}", endpoint.worker_port);
  const std::string host = endpoint.host.empty() ? "this node" : endpoint.host;
  if (endpoint.standalone) {
    return fmt::format("one node; workers meet at {}, {}", host, port);
  }
  const std::string control =
      endpoint.control_port == 0
          ? fmt::format("port {} to {}", endpoint.worker_port + 1, endpoint.worker_port + 8)
          : fmt::format("port {}", endpoint.control_port);
  return fmt::format("nodes meet at {} {} (at most {} s); workers at {}",
                     host,
                     control,
                     endpoint.join_timeout.count(),
                     port);
}

std::string WorkerText(const LaunchPlan& plan, const Variables& inherited, int local_rank) {
  const Assignment assignment = ExpectedAssignment(plan);
  const std::string own = std::to_string(plan.node_rank.value_or(0));
  std::string text = fmt::format(
      "worker {}: {}\n", local_rank, Join(WorkerArguments(plan.program, local_rank), " "));
  const Variables variables =
      WorkerVariables(inherited,
                      plan,
                      assignment,
                      {.node_id = own, .control_socket = "<run>.sock", .attempt_dir = ""},
                      local_rank);
  for (const auto& [name, value] : variables) {
    const auto before = inherited.find(name);
    if (before == inherited.end() || before->second != value) {
      const bool free_port = name == "MASTER_PORT" && value == "0";
      text += fmt::format("    {}={}\n",
                          name,
                          free_port           ? "<free>"
                          : LooksSecret(name) ? "***"
                                              : value);
    }
  }
  return text;
}

}  // namespace

std::string HelpText() {
  std::string text(kIntroduction);
  std::string_view group;
  for (const OptionSpec& spec : OptionTable()) {
    if (spec.group != group) {
      group = spec.group;
      text += fmt::format("\n{}\n", group);
    }
    text += OptionText(spec);
  }
  return text + std::string(kClosing);
}

std::string DryRunText(const LaunchPlan& plan, const Variables& inherited) {
  std::string text = "options\n";
  for (const ResolvedOption& option : plan.options) {
    text += fmt::format("  {:<24}{:<32}{}\n",
                        option.name,
                        option.value.empty() ? "-" : option.value,
                        SourceText(option));
  }
  std::vector<std::string> signals;
  for (const int signal : plan.signals) {
    signals.push_back(SignalName(signal));
  }
  text += fmt::format(
      "plan\n  nodes     {}\n  workers   {} here\n  meeting   {}\n  run id    {}\n  program   {} "
      "({})\n  stop on   {}, killed after {:.1f} s\n",
      plan.max_nodes,
      plan.local_size,
      EndpointText(plan),
      plan.run_id.empty() ? "none given" : plan.run_id,
      plan.program.executable,
      plan.program.kind,
      Join(signals, ", "),
      std::chrono::duration<double>(plan.shutdown_timeout).count());
  for (int local_rank = 0; local_rank < plan.local_size; ++local_rank) {
    text += WorkerText(plan, inherited, local_rank);
  }
  return text;
}

}  // namespace lr::launcher
