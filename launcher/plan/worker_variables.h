#pragma once
/// (pure) The environment and the arguments of one worker: torchrun's variables on top of what was
/// inherited, and our LR_* additions (spec 1.4, E-1 to E-3, L-8). Called by the App once per worker
/// right before it starts.

#include <map>
#include <string>
#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

using Variables = std::map<std::string, std::string>;

/// What a node adds besides plan and assignment.
struct NodeFacts {
  std::string node_id;         ///< finds this node in the assignment
  std::string control_socket;  ///< empty: none
  std::string attempt_dir;     ///< holds <local rank>/error.json; empty: no error files
};

/// This node's part of the assignment; that it has one is the caller's promise.
const NodeAssignment& OwnNode(const Assignment& assignment, const std::string& node_id);

/// The worker's whole environment. Credentials are never added; PET_* pass through.
Variables WorkerVariables(const Variables& inherited,
                          const LaunchPlan& plan,
                          const Assignment& assignment,
                          const NodeFacts& node,
                          int local_rank);

/// The worker's argument vector: `$local_rank` and `${local_rank}` replaced in the program's own
/// arguments; --pass-local-rank's option before them.
std::vector<std::string> WorkerArguments(const LaunchPlan& plan, int local_rank);

/// What the options of this launcher add for one worker; nothing when they say nothing.
WorkerPlacement PlacementOf(const LaunchPlan& plan, int local_rank);

/// Lines for people, said once: OMP_NUM_THREADS set for them, an inherited RANK or WORLD_SIZE that
/// disagrees.
std::vector<std::string> EnvironmentNotes(const Variables& inherited, const LaunchPlan& plan);

/// <attempt_dir>/<local rank>/error.json
std::string ErrorFilePath(const std::string& attempt_dir, int local_rank);

}  // namespace lr::launcher
