#pragma once
/// Policy configurations by type name (policies.md D.1). No LibTorch.

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/policies/policy_config.h"

namespace lr::worker {

/// The types that this build can train.
std::vector<std::string> PolicyTypes();

/// A fresh configuration with the type's defaults. kInvalidArgument for a name that upstream knows
/// and this build does not have, and for an unknown one (with the nearest name and the list).
Result<std::shared_ptr<PolicyConfig>> MakePolicyConfig(const std::string& type);

/// The same, from the content of a config.json; unknown keys are kept (PolicyConfig::unknown_keys).
Result<std::shared_ptr<PolicyConfig>> PolicyConfigFromJson(const Json& json);

}  // namespace lr::worker
