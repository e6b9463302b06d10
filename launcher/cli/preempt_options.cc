/// Rows of the option table about requested checkpoints and pre-emption, and what they mean. Pure.

#include "launcher/cli/preempt_options.h"

#include <array>

#include "common/base/text.h"
#include "launcher/cli/launch_planner.h"
#include "launcher/cli/option_table.h"
#include "launcher/cli/option_values.h"

namespace lr::launcher {
namespace {

using enum Option;
using enum ValueKind;

constexpr std::array kRows = std::to_array<OptionSpec>({
    {kOnSignal,
     "--on-signal",
     "",
     kValue,
     "SIG:ACTION,...",
     "",
     "",
     false,
     kPreemptGroup,
     "What a signal to lr-launch asks for: checkpoint, checkpoint-stop, preempt (checkpoint-stop, "
     "exit 85 or 86), forward, stop, ignore. Our trainer: USR1:checkpoint,USR2:checkpoint-stop."},
    {kGrace,
     "--grace",
     "",
     kValue,
     "SECONDS",
     "",
     "LR_GRACE",
     false,
     kPreemptGroup,
     "From SIGTERM until the scheduler kills this node's processes "
     "(terminationGracePeriodSeconds, KillWait)."},
    {kTimeLimit,
     "--time-limit",
     "",
     kValue,
     "SECONDS|auto|off",
     "auto",
     "",
     false,
     kPreemptGroup,
     "End of the job, from now: the run saves and stops in time (exit 85). auto: as Slurm says."},
    {kPreemptWatch,
     "--preempt-watch",
     "",
     kValue,
     "COMMAND",
     "",
     "",
     false,
     kPreemptGroup,
     "A shell command on each node; a line of its output, or its end with 0, says that the "
     "machine is wanted back. The line may begin with the seconds that are left."},
    {kCheckpointWhenLate,
     "--checkpoint-when-late",
     "",
     kValue,
     "try|skip",
     "try",
     "",
     false,
     kPreemptGroup,
     "A save that will probably not fit into the time left: try it, or skip it."},
    {kCkptSignal,
     "--ckpt-signal",
     "",
     kValue,
     "SIG",
     "",
     "",
     false,
     kPreemptGroup,
     "Programs that are not ours: what lr-ctl checkpoint sends to all their processes."},
    {kCkptGlob,
     "--ckpt-glob",
     "",
     kValue,
     "PATTERN",
     "",
     "",
     false,
     kPreemptGroup,
     "With --ckpt-signal: the checkpoint is complete when such a file is written anew."},
    {kCkptDoneFile,
     "--ckpt-done-file",
     "",
     kValue,
     "PATH",
     "",
     "",
     false,
     kPreemptGroup,
     "The same with one path. Without either the end of the program is waited for."},
});

Result<SignalRule> RuleNamed(const std::string& name, const std::string& spelled) {
  if (name == "dump") {
    return InvalidArgument("{}: dump is not in this version; use forward", spelled);
  }
  constexpr std::pair<std::string_view, SignalRule> kRules[] = {
      {"checkpoint", SignalRule::kCheckpoint},
      {"checkpoint-stop", SignalRule::kCheckpointAndStop},
      {"preempt", SignalRule::kPreempt},
      {"forward", SignalRule::kForward},
      {"stop", SignalRule::kStop},
      {"ignore", SignalRule::kIgnore}};
  for (const auto& [word, rule] : kRules) {
    if (name == word) {
      return rule;
    }
  }
  return InvalidArgument(
      "{}: '{}' is not one of checkpoint, checkpoint-stop, preempt, forward, stop, ignore",
      spelled,
      name);
}

Status PlanSignalRules(const CommandLine& line, LaunchPlan& plan) {
  const std::string text = line.text(kOnSignal);
  const std::string spelled = line.spelled(kOnSignal);
  if (text.empty()) {
    return {};
  }
  for (const std::string& part : Split(text, ',')) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos) {
      return InvalidArgument("{}: '{}' is not SIG:ACTION", spelled, part);
    }
    LR_ASSIGN(const std::vector<int> signals, ReadSignals(part.substr(0, colon), spelled));
    LR_ASSIGN(const SignalRule rule, RuleNamed(std::string(Trim(part.substr(colon + 1))), spelled));
    plan.signal_rules[signals.front()] = rule;
  }
  return {};
}

Status PlanTimeLimit(const CommandLine& line,
                     const EnvironmentReader& environment,
                     PreemptPlan& plan) {
  const std::string text = line.text(kTimeLimit);
  if (text == "off") {
    return {};
  }
  if (text != "auto") {
    LR_ASSIGN(plan.time_limit, ReadSeconds(text, line.spelled(kTimeLimit)));
    return {};
  }
  if (const auto end = environment("SLURM_JOB_END_TIME")) {
    const std::optional<int64_t> unix_s = ParseInt(*end);
    if (unix_s && *unix_s > 0) {
      plan.job_end_unix = *unix_s;
    }
  }
  return {};
}

/// Our trainer reports its checkpoints itself.
Status PlanForeignCheckpoints(const CommandLine& line, LaunchPlan& plan) {
  for (const Option option : {kCkptSignal, kCkptGlob, kCkptDoneFile}) {
    if (line.has(option) && plan.program.native) {
      return InvalidArgument("{}: lr-train needs no such option, it saves when lr-ctl asks",
                             line.spelled(option));
    }
    if (line.has(option) && !line.has(kCkptSignal)) {
      return InvalidArgument("{}: has no effect without --ckpt-signal", line.spelled(option));
    }
  }
  if (line.has(kCkptSignal)) {
    LR_ASSIGN(const std::vector<int> signals,
              ReadSignals(line.text(kCkptSignal), line.spelled(kCkptSignal)));
    if (signals.size() != 1) {
      return InvalidArgument(
          "{}: one signal is sent, not {}", line.spelled(kCkptSignal), signals.size());
    }
    plan.foreign_checkpoints = {signals.front(), line.text(kCkptGlob), line.text(kCkptDoneFile)};
  }
  return {};
}

}  // namespace

std::span<const OptionSpec> PreemptOptionRows() {
  return kRows;
}

Status PlanPreemption(const CommandLine& line,
                      const EnvironmentReader& environment,
                      LaunchPlan& plan) {
  LR_TRY(PlanSignalRules(line, plan));
  LR_TRY(PlanForeignCheckpoints(line, plan));
  LR_TRY(PlanTimeLimit(line, environment, plan.preempt));
  if (!line.text(kGrace).empty()) {
    LR_ASSIGN(plan.preempt.grace, ReadSeconds(line.text(kGrace), line.spelled(kGrace)));
  }
  plan.preempt.watch = line.text(kPreemptWatch);
  const std::string late = line.text(kCheckpointWhenLate);
  LR_TRY(CheckWord(late, line.spelled(kCheckpointWhenLate), {"try", "skip"}));
  plan.policy.when_late = late == "skip" ? WhenLate::kSkip : WhenLate::kTry;
  return {};
}

}  // namespace lr::launcher
