#pragma once
/// (pure) What each worker of this node is started with, from the plan and the node's part of the
/// assignment. Called by the App when an epoch may start.

#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/worker_variables.h"
#include "launcher/supervise/worker_process.h"

namespace lr::launcher {

/// A single worker inherits stdin, and its bytes pass unchanged unless the log options say
/// otherwise (S-50, L-32). Log files lie in the node's attempt folder.
std::vector<WorkerSpec> MakeWorkerSpecs(const LaunchPlan& plan,
                                        const Assignment& assignment,
                                        const NodeFacts& node,
                                        const Variables& inherited);

}  // namespace lr::launcher
