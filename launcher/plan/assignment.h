#pragma once
/// What the nodes of a run agree on, and how a worker's end is told: plain data passed between the
/// rendezvous and the supervision of a node. No gRPC, no clock.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/save_time.h"

namespace lr::launcher {

/// One node's part of an epoch.
struct NodeAssignment {
  std::string node_id;  ///< random 128-bit instance id of that lr-launch, hex
  std::string host_name;
  std::string address;  ///< the address its peers use
  int node_rank = 0;
  int local_size = 1;  ///< workers on this node
  int first_rank = 0;  ///< global rank of its local rank 0
};

/// One numbered formation of the run; every node receives the same one.
struct Assignment {
  std::string run_id;
  int64_t epoch = 0;
  int attempt = 0;                    ///< epochs that ran before this one
  int restart_count = 0;              ///< of them, restarts after failures of the program
  std::vector<NodeAssignment> nodes;  ///< ascending node_rank
  int world_size = 0;
  std::string master_addr;
  int master_port = 0;
  std::string resume_from;                ///< checkpoint chosen for this start; empty: none
  std::vector<std::string> resume_lines;  ///< why that one, for people; empty: nothing to say
};

/// `nodes` ascending; nullptr: no node has that rank.
inline const NodeAssignment* NodeOfRank(const std::vector<NodeAssignment>& nodes, int rank) {
  const auto next = std::ranges::upper_bound(nodes, rank, {}, &NodeAssignment::first_rank);
  if (next == nodes.begin()) {
    return nullptr;
  }
  const NodeAssignment& node = *std::prev(next);
  return rank < node.first_rank + node.local_size ? &node : nullptr;
}

/// How one worker ended (S-10). Exactly one of exit_code (>= 0) and signal (> 0) is meaningful.
struct WorkerEnding {
  int rank = 0;
  int local_rank = 0;
  int node_rank = 0;
  std::string host_name;
  int64_t pid = 0;
  int exit_code = 0;
  int signal = 0;
  bool core_dumped = false;
  bool stopped_by_us = false;  ///< we had sent it a signal before it ended
  bool stopped_early = false;  ///< a native worker ended well, on request, before its last step
  int64_t start_unix_ns = 0;
  int64_t end_unix_ns = 0;
  std::string error_file;
  std::string message;  ///< from error.json or the worker's own Failure message; may be empty
  std::vector<std::string> last_lines;  ///< of stderr, oldest first; of stdout if it has none
  bool last_lines_are_stdout = false;
  std::string kernel_evidence;  ///< what memory the kernel says ran out, for an end not of ours

  bool succeeded() const { return signal == 0 && exit_code == 0; }

  /// The code this ending gives the job: exit_code, or 128 + signal.
  int job_exit_code() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// How far the native workers of a node, or of all nodes, have come.
struct TrainingProgress {
  int64_t step = 0;
  int64_t checkpoint_step = 0;  ///< newest complete checkpoint; 0: none
  std::string output_dir = {};  ///< where they save, absolute; empty: nobody said
  SaveEstimates estimates = {};
};

/// Why everybody stops.
enum class StopReason {
  kWorkerFailed,
  kNodeLost,
  kHostLost,
  kSignal,
  kCancelled,
  kMembership,
  kHang,
  kPreempted = 7,  ///< the machine is wanted back, or its time is over
};

/// How a run, or one epoch of it, ended; the same on every node.
struct RunOutcome {
  bool succeeded = false;
  int exit_code = 0;   ///< spec 1.5
  std::string reason;  ///< one sentence
  std::optional<WorkerEnding> root_cause;
  std::vector<WorkerEnding> failures;  ///< all unsuccessful endings, in the order they happened
  std::string next = {};  ///< "restart 2 of 3 in 4.0 s", or why there is none; may be empty
};

}  // namespace lr::launcher
