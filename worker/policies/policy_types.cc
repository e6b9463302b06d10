#include "worker/policies/policy_types.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/config/group.h"
#include "worker/policies/act/act_config.h"

namespace lr::worker {

namespace {

/// Names that upstream registers and this build does not have.
const std::vector<std::string> kKnownUpstream = {"diffusion",
                                                 "eo1",
                                                 "evo1",
                                                 "fastwam",
                                                 "gaussian_actor",
                                                 "groot",
                                                 "lingbot_va",
                                                 "molmoact2",
                                                 "multi_task_dit",
                                                 "pi0",
                                                 "pi05",
                                                 "pi0_fast",
                                                 "smolvla",
                                                 "tdmpc",
                                                 "vla_jepa",
                                                 "vqbet",
                                                 "wall_x",
                                                 "xvla"};

}  // namespace

std::vector<std::string> PolicyTypes() {
  return {"act"};
}

Result<std::shared_ptr<PolicyConfig>> MakePolicyConfig(const std::string& type) {
  if (type == "act") {
    return std::shared_ptr<PolicyConfig>(std::make_shared<ActConfig>());
  }
  if (std::find(kKnownUpstream.begin(), kKnownUpstream.end(), type) != kKnownUpstream.end()) {
    return InvalidArgument(
        "--policy.type={}: known upstream, not available in this build (it has: {})",
        type,
        Join(PolicyTypes(), ", "));
  }
  std::vector<std::string> all = kKnownUpstream;
  all.emplace_back("act");
  const std::optional<std::string> nearest = NearestName(type, all);
  return InvalidArgument("--policy.type={}: unknown policy{} (this build has: {})",
                         type,
                         nearest ? fmt::format(", did you mean {}?", *nearest) : "",
                         Join(PolicyTypes(), ", "));
}

Result<std::shared_ptr<PolicyConfig>> PolicyConfigFromJson(const Json& json) {
  if (!json.is_object() || !json.contains("type") || !json["type"].is_string()) {
    return InvalidArgument("the policy's configuration has no 'type'");
  }
  LR_ASSIGN(std::shared_ptr<PolicyConfig> config,
            MakePolicyConfig(json["type"].get<std::string>()));
  config::Group group;
  config->Describe(group);
  LR_TRY(group.ReadJson(json, config::UnknownKeys::kKeep, &config->unknown_keys));
  return config;
}

}  // namespace lr::worker
