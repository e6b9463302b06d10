#include "launcher/plan/failure_summary.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

constexpr size_t kRuleWidth = 60;
constexpr size_t kShownLines = 20;

bool IsRootCause(const WorkerEnding& ending, const RunOutcome& outcome) {
  return outcome.root_cause && ending.rank == outcome.root_cause->rank &&
         ending.pid == outcome.root_cause->pid;
}

/// The local time of the end, as torchrun writes it.
std::string EndTime(const WorkerEnding& ending) {
  return fmt::format("{:%Y-%m-%d_%H:%M:%S}",
                     fmt::localtime(static_cast<std::time_t>(ending.end_unix_ns / 1'000'000'000)));
}

/// torchrun's figure: the exit code, or minus the signal followed by its name.
std::string ExitCodeText(const WorkerEnding& ending) {
  return ending.signal == 0 ? fmt::format("{}", ending.exit_code)
                            : fmt::format("-{} ({})", ending.signal, SignalName(ending.signal));
}

std::string Traceback(const WorkerEnding& ending) {
  if (!ending.message.empty()) {
    return ending.message;
  }
  if (ending.signal != 0) {
    return fmt::format(
        "Signal {} ({}) received by PID {}", ending.signal, SignalName(ending.signal), ending.pid);
  }
  return "<the program wrote no error file>";
}

std::string Entry(size_t index, const WorkerEnding& ending) {
  return fmt::format(
      "[{}]:\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local_rank: {})\n"
      "  exitcode  : {} (pid: {})\n"
      "  error_file: {}\n"
      "  traceback : {}\n",
      index,
      EndTime(ending),
      ending.host_name,
      ending.rank,
      ending.local_rank,
      ExitCodeText(ending),
      ending.pid,
      ending.error_file.empty() || ending.message.empty() ? "<N/A>" : ending.error_file,
      Traceback(ending));
}

/// torchrun's block: the other failures first, then the first one.
std::string TorchrunBlock(const RunOutcome& outcome, const FailureContext& context) {
  std::string others;
  size_t index = 1;
  for (const WorkerEnding& ending : outcome.failures) {
    if (!IsRootCause(ending, outcome)) {
      others += Entry(index++, ending);
    }
  }
  const std::string double_rule = std::string(kRuleWidth, '=') + "\n";
  const std::string rule = std::string(kRuleWidth, '-') + "\n";
  return double_rule + context.program + " FAILED\n" + rule + "Failures:\n" +
         (others.empty() ? "  <NO_OTHER_FAILURES>\n" : others) + rule +
         "Root Cause (first observed failure):\n" + Entry(0, *outcome.root_cause) + double_rule;
}

/// "0-2,5" for {0, 1, 2, 5}.
std::string RankList(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) {
      ++end;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (end > i) {
      text += fmt::format("-{}", ranks[end]);
    }
    i = end + 1;
  }
  return text;
}

std::string CauseLine(const WorkerEnding& cause, const FailureLabel& label) {
  const std::string who = fmt::format("rank {} (node {}, {}, local rank {})",
                                      cause.rank,
                                      cause.node_rank,
                                      cause.host_name,
                                      cause.local_rank);
  if (label.name.empty()) {
    return fmt::format("Most likely cause: {} ended with {}{}\n",
                       who,
                       DescribeEnding(cause),
                       cause.message.empty() ? ", no message" : "");
  }
  return fmt::format("Most likely cause: {}: {}, {}\n", who, label.name, DescribeEnding(cause));
}

std::string StepLine(const WorkerEnding& cause, const FailureContext& context) {
  const auto step = context.steps.find(cause.rank);
  if (step == context.steps.end()) {
    return "";
  }
  return fmt::format("  step     : {} ({})\n",
                     step->second,
                     context.checkpoint_step > 0
                         ? fmt::format("last complete checkpoint: step {}", context.checkpoint_step)
                         : "no complete checkpoint yet");
}

std::string AlsoLine(const RunOutcome& outcome) {
  std::vector<int> later;
  for (const WorkerEnding& ending : outcome.failures) {
    if (!IsRootCause(ending, outcome)) {
      later.push_back(ending.rank);
    }
  }
  if (later.empty()) {
    return "";
  }
  return fmt::format("  also     : rank{} {} ended later, as a consequence\n",
                     later.size() == 1 ? "" : "s",
                     RankList(later));
}

std::string LastLines(const WorkerEnding& cause) {
  if (cause.last_lines.empty()) {
    return "";
  }
  std::string text = fmt::format("  last lines of rank {} (stderr):\n", cause.rank);
  const size_t skip = cause.last_lines.size() - std::min(cause.last_lines.size(), kShownLines);
  for (size_t i = skip; i < cause.last_lines.size(); ++i) {
    text += fmt::format("      {}\n", cause.last_lines[i]);
  }
  return text;
}

}  // namespace

std::string FailureSummary(const RunOutcome& outcome, const FailureContext& context) {
  if (!outcome.root_cause) {
    return fmt::format("{} FAILED: {}\n", context.program, outcome.reason);
  }
  const WorkerEnding& cause = *outcome.root_cause;
  const FailureLabel label = LabelFailure(cause);
  std::string text = TorchrunBlock(outcome, context) + CauseLine(cause, label);
  if (!label.evidence.empty()) {
    text += fmt::format("  evidence : {}\n", Trim(Split(label.evidence, '\n').back()));
  }
  if (label.secondary) {
    text += "  note     : this looks like a consequence; the first cause was not seen\n";
  }
  text += StepLine(cause, context) + AlsoLine(outcome) + LastLines(cause);
  if (!outcome.next.empty()) {
    text += fmt::format("  next     : {}\n", outcome.next);
  }
  if (!context.run_directory.empty()) {
    text += fmt::format("  record   : {}\n", context.run_directory);
  }
  return text;
}

}  // namespace lr::launcher
