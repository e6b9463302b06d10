#pragma once
/// The options of an optimizer's groups as torch names them (checkpoints.md 3.7, 4.7): for
/// optimizer_param_groups.json and for distributed checkpoints. Step thread.

#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"
#include "worker/optim/optimizer.h"

namespace lr::worker {

/// The array of groups; `params` are the numbers of the parameters through all groups.
Json OptimizerParamGroups(const Optimizer& optimizer);

/// Takes over one saved group's options; `params` are the caller's business. Fails on options that
/// this optimizer cannot continue with; adds to `warnings` keys that were ignored or missing.
Status ReadOptimizerOptions(const Json& saved,
                            OptimizerGroup& group,
                            std::set<std::string>& warnings);

/// The state tensors that a parameter of this group has.
std::vector<std::string> OptimizerStateNames(const OptimizerGroup& group);

}  // namespace lr::worker
