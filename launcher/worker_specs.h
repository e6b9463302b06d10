#pragma once
/// (pure) What each worker of this node is started with, from the plan and the node's part of the
/// assignment. Called by the App when an epoch may start.

#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/worker_variables.h"
#include "launcher/supervise/worker_process.h"

namespace lr::launcher {

/// Several workers: each line is prefixed `[<role><local rank>]:`, as torchrun's tee does. One
/// worker: its bytes pass unchanged and it inherits stdin (S-50).
std::vector<WorkerSpec> MakeWorkerSpecs(const LaunchPlan& plan,
                                        const Assignment& assignment,
                                        const NodeFacts& node,
                                        const Variables& inherited);

}  // namespace lr::launcher
