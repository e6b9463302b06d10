#include "launcher/plan/restart_policy.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kIdleAttempts = 3;
constexpr seconds kEarly{30};
constexpr minutes kLongProgress{10};  ///< after that the back-off begins anew
constexpr seconds kLongestPause{60};
constexpr double kJitter = 0.25;

/// What another start of the same command would end in, too.
constexpr std::array kMistakes = std::to_array<std::string_view>({
    "usage error of the program",
    "import error",
    "syntax error",
    "missing shared library",
});

nanoseconds Uptime(const WorkerEnding& ending) {
  return nanoseconds(ending.end_unix_ns - ending.start_unix_ns);
}

bool Moved(const EpochEnd& end, const RestartHistory& history) {
  if (!end.progress) {
    return false;
  }
  const TrainingProgress best = history.best.value_or(TrainingProgress{});
  return end.progress->step > best.step || end.progress->checkpoint_step > best.checkpoint_step;
}

/// Attempts that reached nothing new, this one included; progress nobody tells is not judged.
int IdleAttempts(const EpochEnd& end, const RestartHistory& history) {
  const bool known = end.progress || history.best;
  return known && !Moved(end, history) ? history.idle + 1 : 0;
}

bool MadeLongProgress(const EpochEnd& end, const RestartHistory& history) {
  const bool known = end.progress || history.best;
  return end.ran_for >= kLongProgress && (!known || Moved(end, history));
}

/// A mistake that every attempt would repeat, in words; empty: none that is recognised.
std::string Mistake(const WorkerEnding& cause) {
  if (cause.exit_code == kExitConfigRefused) {
    return fmt::format("exit code {}: the configuration is refused", kExitConfigRefused);
  }
  const FailureLabel label = LabelFailure(cause);
  return std::ranges::find(kMistakes, label.name) == kMistakes.end() ? "" : label.name;
}

/// S-42: why a restart that the budget allows promises nothing; empty: it may help.
std::string Pointless(const EpochEnd& end, const RestartHistory& history) {
  const WorkerEnding& cause = *end.root_cause;
  if (history.restarts == 0) {
    if (const std::string mistake = Mistake(cause); !mistake.empty()) {
      return fmt::format("no restart: another start would end in the same way ({})", mistake);
    }
  }
  if (history.early && history.early->rank == cause.rank &&
      history.early->code == cause.job_exit_code() && Uptime(cause) < kEarly) {
    return fmt::format("no restart: rank {} ended with {} within {} s, twice in a row",
                       cause.rank,
                       DescribeEnding(cause),
                       kEarly.count());
  }
  if (IdleAttempts(end, history) >= kIdleAttempts) {
    const TrainingProgress best = history.best.value_or(TrainingProgress{});
    return fmt::format(
        "no restart: {} attempts in a row came no further than step {} (checkpoint "
        "of step {})",
        kIdleAttempts,
        best.step,
        best.checkpoint_step);
  }
  return "";
}

milliseconds Pause(int in_a_row, double uniform) {
  const seconds plain = std::min(kLongestPause, seconds(int64_t{1} << std::min(in_a_row, 6)));
  const double factor = 1.0 + kJitter * (2.0 * uniform - 1.0);
  return milliseconds(
      static_cast<int64_t>(static_cast<double>(milliseconds(plain).count()) * factor));
}

RestartDecision DoNotRestart(std::string reason) {
  return {.exit_code = kExitDoNotRestart, .reason = std::move(reason)};
}

RestartDecision AfterFailure(const EpochEnd& end,
                             const RestartHistory& history,
                             const RestartRules& rules,
                             double uniform) {
  if (end.root_cause && end.root_cause->exit_code == kExitDoNotRestart) {
    return DoNotRestart(fmt::format("no restart: rank {} asked for none (exit code {})",
                                    end.root_cause->rank,
                                    kExitDoNotRestart));
  }
  if (end.root_cause && end.root_cause->exit_code == kExitPublishFailed) {
    return {.reason = fmt::format(
                "no restart: the training is done and saved, publishing failed (exit code {})",
                kExitPublishFailed)};
  }
  if (history.restarts >= rules.max_restarts) {
    return {.reason = fmt::format("no restart: all {} are used", rules.max_restarts)};
  }
  if (end.root_cause && end.root_cause->pid == 0) {
    return {.reason = "no restart: the program could not be started"};
  }
  if (!rules.always && end.root_cause) {
    if (std::string pointless = Pointless(end, history); !pointless.empty()) {
      return DoNotRestart(std::move(pointless) + "; --always-restart would");
    }
  }
  const int in_a_row = MadeLongProgress(end, history) ? 0 : history.in_a_row;
  const milliseconds delay = Pause(in_a_row, uniform);
  return {.again = true,
          .counts = true,
          .delay = delay,
          .reason = fmt::format("restart {} of {} in {:.1f} s",
                                history.restarts + 1,
                                rules.max_restarts,
                                std::chrono::duration<double>(delay).count())};
}

}  // namespace

RestartDecision DecideRestart(const EpochEnd& end,
                              const RestartHistory& history,
                              const RestartRules& rules,
                              double uniform) {
  if (end.kind == EpochEndKind::kWorkerFailed && rules.max_restarts == 0) {
    return {};
  }
  const int losses = history.node_losses + end.nodes_lost;
  if (end.nodes_lost > 0 && rules.max_node_losses && losses > *rules.max_node_losses) {
    return {.reason = fmt::format("no new start: {} nodes were lost, --max-node-losses allows {}",
                                  losses,
                                  *rules.max_node_losses)};
  }
  if (end.nodes_left < end.min_nodes && !rules.max_node_losses) {
    return {.reason = fmt::format(
                "no new start: {} of at least {} nodes are left", end.nodes_left, end.min_nodes)};
  }
  switch (end.kind) {
    case EpochEndKind::kWorkerFailed:
      return AfterFailure(end, history, rules, uniform);
    case EpochEndKind::kNodeLost:
      return {.again = true,
              .reason = fmt::format("a new start with {} nodes, which uses no restart",
                                    std::max(end.nodes_left, end.min_nodes))};
    case EpochEndKind::kMembership:
      return {.again = true, .reason = "a new start with other nodes, which uses no restart"};
    case EpochEndKind::kPreempted:
      return {.again = true, .reason = "a new start after a pre-emption, which uses no restart"};
  }
  return {};
}

RestartHistory Remember(RestartHistory history, const EpochEnd& end, const RestartDecision& taken) {
  const bool failed = end.kind == EpochEndKind::kWorkerFailed;
  history.in_a_row = MadeLongProgress(end, history) ? 0 : history.in_a_row;
  history.idle = failed ? IdleAttempts(end, history) : history.idle;
  if (Moved(end, history)) {
    const TrainingProgress best = history.best.value_or(TrainingProgress{});
    history.best = {std::max(best.step, end.progress->step),
                    std::max(best.checkpoint_step, end.progress->checkpoint_step)};
    history.idle = 0;
  } else if (end.progress && !history.best) {
    history.best = end.progress;
  }
  history.node_losses += end.nodes_lost;
  history.early.reset();
  if (failed && end.root_cause && Uptime(*end.root_cause) < kEarly) {
    history.early = {end.root_cause->rank, end.root_cause->job_exit_code()};
  }
  if (taken.counts) {
    ++history.restarts;
    ++history.in_a_row;
  }
  return history;
}

}  // namespace lr::launcher
