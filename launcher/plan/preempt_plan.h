#pragma once
/// (pure) How this node learns that its machine is wanted back, and when its last save must begin
/// (spec 5.1). Made from the command line and the scheduler's variables; the App arms timer and
/// watch with it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/plan/save_time.h"

namespace lr::launcher {

struct PreemptPlan {
  std::optional<std::chrono::milliseconds> grace;       ///< --grace: from SIGTERM to the end
  std::optional<std::chrono::milliseconds> time_limit;  ///< --time-limit, from our own start
  std::optional<int64_t> job_end_unix;                  ///< told by the scheduler
  std::string watch;  ///< --preempt-watch: a shell command; empty: none
};

/// What is left of the job; nullopt: no end is known.
std::optional<std::chrono::milliseconds> TimeLeft(const PreemptPlan& plan,
                                                  std::chrono::milliseconds since_start,
                                                  int64_t now_unix);

/// In how long the run is asked for its last save: the lead time before the end; of a job shorter
/// than that, after half of what is left.
std::chrono::milliseconds LastSaveIn(std::chrono::milliseconds left,
                                     const SaveEstimates& estimates);

struct Notice {
  std::string text;
  std::optional<std::chrono::milliseconds> within;  ///< until the machine is gone
};

/// A line of --preempt-watch: seconds that are left, words, both or neither.
Notice ReadNotice(const std::string& line);

/// How the command of --preempt-watch ended: a notice (exit 0), or why it tells nothing any more.
struct WatchEnd {
  bool notice = false;
  std::string text;
};

WatchEnd JudgeWatchEnd(int exit_code, int signal);

}  // namespace lr::launcher
