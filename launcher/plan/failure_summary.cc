#include "launcher/plan/failure_summary.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/failure_label.h"
#include "launcher/plan/rank_list.h"

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

/// As torchrun writes it: the exit code, or minus the signal with its name at the end.
std::string ExitCodeText(const WorkerEnding& ending) {
  return ending.signal == 0
             ? fmt::format("{} (pid: {})", ending.exit_code, ending.pid)
             : fmt::format(
                   "-{} (pid: {}) ({})", ending.signal, ending.pid, SignalName(ending.signal));
}

/// Further lines are indented, as torchrun does it.
std::string Traceback(const WorkerEnding& ending) {
  if (!ending.message.empty()) {
    return Join(Split(Trim(ending.message), '\n'), "\n  ");
  }
  if (ending.signal != 0) {
    return fmt::format(
        "Signal {} ({}) received by PID {}", ending.signal, SignalName(ending.signal), ending.pid);
  }
  return "<the program wrote no error file>";
}

/// What a program says comes last in Python's traceback and alone in ours.
std::string LastLine(const std::string& message) {
  const std::vector<std::string> lines = Split(Trim(message), '\n');
  return lines.back();
}

std::string Entry(size_t index, const WorkerEnding& ending) {
  return fmt::format(
      "[{}]:\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local_rank: {})\n"
      "  exitcode  : {}\n"
      "  error_file: {}\n"
      "  traceback : {}\n",
      index,
      EndTime(ending),
      ending.host_name,
      ending.rank,
      ending.local_rank,
      ExitCodeText(ending),
      ending.error_file.empty() || ending.message.empty() ? "<N/A>" : ending.error_file,
      Traceback(ending));
}

/// What torchrun would have called the first failure: the earliest, whatever it means.
const WorkerEnding& FirstObserved(const RunOutcome& outcome) {
  return outcome.failures.empty() ? *outcome.root_cause : outcome.failures.front();
}

/// torchrun's block: the other failures first, then the first one.
std::string TorchrunBlock(const RunOutcome& outcome, const FailureContext& context) {
  const WorkerEnding& first = FirstObserved(outcome);
  std::string others;
  size_t index = 1;
  for (const WorkerEnding& ending : outcome.failures) {
    if (&ending != &first) {
      others += Entry(index++, ending);
    }
  }
  const std::string double_rule = std::string(kRuleWidth, '=') + "\n";
  const std::string rule = std::string(kRuleWidth, '-') + "\n";
  return double_rule + context.program + " FAILED\n" + rule + "Failures:\n" +
         (others.empty() ? "  <NO_OTHER_FAILURES>\n" : others) + rule +
         "Root Cause (first observed failure):\n" + Entry(0, first) + double_rule;
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
                       cause.message.empty() ? ", no message" : ": " + LastLine(cause.message));
  }
  const bool is_deed = label.name.starts_with("killed");
  return fmt::format("Most likely cause: {}{}{}, {}\n",
                     who,
                     is_deed ? " was " : ": ",
                     label.name,
                     DescribeEnding(cause));
}

/// The first cause may have been about to end when it was stopped: then its own words tell.
std::string UnseenCause(const RunOutcome& outcome) {
  for (const WorkerEnding& ending : outcome.failures) {
    const FailureLabel label = LabelFailure(ending);
    if (ending.stopped_by_us && !label.name.empty() && !label.secondary) {
      return fmt::format("rank {}, stopped meanwhile, had written: {} ({})",
                         ending.rank,
                         label.evidence,
                         label.name);
    }
  }
  return "the first cause was not seen";
}

/// Where our choice is not the earliest failure, and why.
std::string NoteLine(const RunOutcome& outcome, const FailureLabel& label) {
  if (label.secondary) {
    return fmt::format("  note     : this looks like a consequence; {}\n", UnseenCause(outcome));
  }
  const WorkerEnding& first = FirstObserved(outcome);
  if (IsRootCause(first, outcome)) {
    return "";
  }
  const FailureLabel of_first = LabelFailure(first);
  return fmt::format("  note     : rank {} ended first, but as a consequence ({})\n",
                     first.rank,
                     first.stopped_by_us ? "stopped by lr-launch" : of_first.name);
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

/// The other failures, by what became of them.
std::string AlsoLine(const RunOutcome& outcome) {
  std::map<std::string, std::vector<int>> ranks;
  for (const WorkerEnding& ending : outcome.failures) {
    if (IsRootCause(ending, outcome)) {
      continue;
    }
    const FailureLabel label = LabelFailure(ending);
    const bool consequence = ending.stopped_by_us || label.secondary;
    const std::string& named = label.name;
    const std::string how = ending.stopped_by_us ? "stopped by lr-launch"
                            : named.empty()      ? DescribeEnding(ending)
                                                 : named;
    ranks[fmt::format("{}({})", consequence ? "as a consequence " : "", how)].push_back(
        ending.rank);
  }
  std::vector<std::string> groups;
  groups.reserve(ranks.size());
  for (const auto& [how, of] : ranks) {
    groups.push_back(fmt::format("{} ended {}", RanksText(of), how));
  }
  return groups.empty() ? "" : fmt::format("  also     : {}\n", Join(groups, "; "));
}

std::string LastLines(const WorkerEnding& cause) {
  if (cause.last_lines.empty()) {
    return "";
  }
  std::string text = fmt::format("  last lines of rank {} ({}):\n",
                                 cause.rank,
                                 cause.last_lines_are_stdout ? "stdout" : "stderr");
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
    text += fmt::format("  evidence : {}\n", label.evidence);
  }
  text +=
      NoteLine(outcome, label) + StepLine(cause, context) + AlsoLine(outcome) + LastLines(cause);
  if (!label.advice.empty()) {
    text += fmt::format("  next     : {}\n", label.advice);
  }
  if (!outcome.next.empty()) {
    text +=
        fmt::format("  {}{}\n", label.advice.empty() ? "next     : " : "           ", outcome.next);
  }
  if (!context.run_directory.empty()) {
    text += fmt::format("  record   : {}\n", context.run_directory);
  }
  return text;
}

}  // namespace lr::launcher
