#pragma once
/// (pure) Which dataset features become a policy's inputs and outputs, and whether they fit
/// (policies.md 0.1, E-5).

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/features.h"
#include "worker/policies/policy_config.h"

namespace lr::worker {

/// Renames the dataset's keys, rebuilds the outputs from them, and the inputs when the policy has
/// none yet; otherwise compares the policy's cameras and widths with the dataset's. Returns lines
/// for the log. A mismatch is kInvalidArgument with both sides and a ready-to-paste --rename_map.
Result<std::vector<std::string>> FillFeaturesFromDataset(
    PolicyConfig& config,
    const DatasetFeatures& dataset,
    const std::map<std::string, std::string>& rename_map = {});

}  // namespace lr::worker
