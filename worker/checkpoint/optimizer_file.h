#pragma once
/// optimizer_state.safetensors and optimizer_param_groups.json of a non-sharded run
/// (checkpoints.md 3.7): written with the key sets and number types that torch >= 2.6 compares
/// strictly, read leniently, also into shards.
///
/// Thread: step thread, except that what StateTensors() and ParamGroups() returned may be written
/// elsewhere.

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_save_plan.h"
#include "worker/checkpoint/optimizer_groups.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/optim/optimizer.h"
#include "worker/parallel/sharded_parameter.h"

namespace lr::worker {

/// The optimizer's live state tensors as `state/<id>/<name>`.
NamedTensors OptimizerStateTensors(const Optimizer& optimizer);

/// Restores groups and state from the folder `training_state`. Hard errors: other number of groups
/// or parameters, ids out of range, shapes that differ from the parameter's, incomplete state of a
/// parameter; nothing is applied then. Returns warnings about keys that were ignored or kept their
/// current value. `held` says which of the optimizer's parameters are shards; those get their rows
/// (peak memory beside them: one whole tensor), all others everything.
Result<std::vector<std::string>> LoadOptimizer(const std::filesystem::path& training_state,
                                               Optimizer& optimizer,
                                               const std::vector<ShardedParameter>& held = {},
                                               const DcpPlace& place = {});

}  // namespace lr::worker
