#pragma once
/// The machine-readable end of a run (--result-file, L-21): outcome, root cause, how each worker
/// ended, restarts, checkpoint, durations. It tells a worker's own exit code from one of the
/// launcher's reserved ones. Written once by the App when everything is over; a run that was
/// refused before it began (usage, configuration) leaves none.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/io/json.h"
#include "launcher/plan/assignment.h"

namespace lr::launcher {

/// What the launcher of one node knows at the end.
struct RunFacts {
  std::optional<RunOutcome> outcome;     ///< nullopt: a signal ended the join
  std::optional<Assignment> assignment;  ///< nullopt: the nodes never met
  std::map<int, WorkerEnding> endings;   ///< by rank; of this node, the last attempt's
  std::string run_directory;
  std::string checkpoint_directory;  ///< newest complete one known here; empty: none
  int64_t checkpoint_step = 0;
  int exit_code = 0;
  int64_t started_unix_ns = 0;
  int64_t ended_unix_ns = 0;
};

/// "succeeded", "worker_failed", "not_started" (the nodes did not meet) or "stopped".
std::string OutcomeWord(const RunFacts& facts);

Json ResultToJson(const RunFacts& facts);

/// Replaces `path` atomically.
Status WriteResultFile(const std::string& path, const RunFacts& facts);

}  // namespace lr::launcher
