#pragma once
/// (pure) Whether a checkpoint fits into the time that is left (C-7), and how early the run must
/// begin with the last one. Called by the host for requests with a limit and by each node for its
/// pre-emption notices. Cannot fail: where nothing was measured yet, a save is tried.

#include <chrono>
#include <optional>
#include <string>

namespace lr::launcher {

/// Newest measurements of this run; 0: none yet.
struct SaveEstimates {
  double step_s = 0.0;
  double save_s = 0.0;  ///< from the agreed step to the published directory
};

/// --checkpoint-when-late: what happens to a save that does not fit.
enum class WhenLate { kTry, kSkip };

struct TimeCheck {
  bool fits = true;
  std::string reason;  ///< "NOT_ENOUGH_TIME: …" when it does not
};

/// Needed: 1.5 times the last save and two steps.
TimeCheck CheckTime(const SaveEstimates& estimates, std::chrono::milliseconds available);

/// How long before the end of a job its last save is asked for: twice the last save, two steps and
/// 30 s.
std::chrono::milliseconds LeadTime(const SaveEstimates& estimates);

/// The grace of a stop (S-32): our own limit, and what the scheduler leaves minus 5 s, of less than
/// 10 s the half.
std::chrono::milliseconds GraceWithin(std::chrono::milliseconds limit,
                                      std::optional<std::chrono::milliseconds> available);

}  // namespace lr::launcher
