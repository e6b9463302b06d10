#pragma once
/// (pure) By which rules a run of several epochs goes on: restarts, hangs, growth, spares.
/// Options of every node's command line; the host's are the ones that act, and the nodes compare
/// those that people would want equal (plan_digest.h).

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

#include "launcher/plan/save_time.h"

namespace lr::launcher {

/// S-40, S-42.
struct RestartRules {
  int max_restarts = 0;                ///< after failures of the program, for the whole run
  std::optional<int> max_node_losses;  ///< nullopt: as many as spares and the minimum allow
  bool always = false;                 ///< --always-restart: also when it promises nothing
};

/// when a node that comes while workers run becomes a member. Programs that are not ours
/// cannot be asked for a checkpoint: kAtCheckpoint stops them at once, as torchrun does.
enum class GrowRule { kAtCheckpoint, kImmediate, kNever };

/// As --grow spells it.
constexpr std::string_view GrowRuleName(GrowRule rule) {
  constexpr std::string_view kNames[] = {"at-checkpoint", "immediate", "never"};
  return kNames[static_cast<size_t>(rule)];
}

/// What follows a hang: kAuto restarts when a restart is left, else reports.
enum class HangAction { kAuto, kReport, kRestart, kStop };

/// As --hang-action spells it.
constexpr std::string_view HangActionName(HangAction action) {
  constexpr std::string_view kNames[] = {"auto", "report", "restart", "stop"};
  return kNames[static_cast<size_t>(action)];
}

/// S-21; by options of the command line.
struct HangRules {
  bool on = true;                                   ///< --hang-timeout=off
  std::chrono::milliseconds shortest{120'000};      ///< --hang-timeout
  std::chrono::milliseconds first_step{3'600'000};  ///< --hang-first-step, from the start on
  std::chrono::milliseconds checkpoint{1'800'000};  ///< --hang-checkpoint
  HangAction action = HangAction::kAuto;            ///< --hang-action
};

struct RunPolicy {
  RestartRules restarts = {};
  HangRules hang = {};
  GrowRule grow = GrowRule::kAtCheckpoint;
  int spares = 0;  ///< of a run of fixed size: nodes beyond it that may wait
  WhenLate when_late = WhenLate::kTry;
  std::chrono::milliseconds stop_limit{90'000};  ///< from a stop to a node without workers
};

}  // namespace lr::launcher
