#pragma once
/// (pure) From which checkpoint a run goes on (C-20, C-21, S-45): the newest one of this run that
/// is complete on every node of the epoch. Called by the run machine while it commits an epoch,
/// with what each node's launcher saw; the answer goes to all nodes, so that no rank picks another
/// one. Cannot fail: without a checkpoint the workers start as their command line says.

#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/checkpoint_layout.h"

namespace lr::launcher {

/// What one node sees below the output directory of the run.
struct CheckpointView {
  std::string problem;  ///< why it could not look; empty: it could
  std::vector<CheckpointCandidate> candidates;
};

struct NodeCheckpointView {
  std::string node;  ///< for people: "node 1 (gpu07)"
  CheckpointView view;
};

struct ResumeChoice {
  std::string directory;  ///< step directory; empty: none
  int64_t step = 0;
  std::string reason;                ///< in words, both ways
  std::vector<std::string> skipped;  ///< damaged and unfinished ones, one line each, newest first
};

/// Checkpoints of another run, by their manifest, are never taken: the user may have resumed from
/// one of them on purpose, or has forgotten it.
ResumeChoice ChooseResume(const std::string& output_dir,
                          const std::string& run_id,
                          const std::vector<NodeCheckpointView>& views);

/// What people are told about a start that is not the first.
struct ResumeFacts {
  std::string start;         ///< "restart 1 of 3"
  int64_t reached_step = 0;  ///< the last step that the workers told before; 0: none
};

/// The choice, the steps that are lost by it, and what was skipped: one line each.
std::vector<std::string> DescribeResume(const ResumeChoice& choice, const ResumeFacts& facts);

}  // namespace lr::launcher
