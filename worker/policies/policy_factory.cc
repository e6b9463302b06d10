// From configuration to policy: one branch per type, and the files a policy starts from. Errors are
// complete sentences for the person at the command line.
#include "worker/policies/policy_factory.h"

#include <cstdlib>

#include "worker/nn/pretrained_weights.h"
#include "worker/nn/resnet.h"
#include "worker/nn/torch_file.h"
#include "worker/policies/act/act_policy.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWeightsVariable = "LR_BACKBONE_WEIGHTS";

/// Where a backbone's weights come from.
struct WeightsSource {
  fs::path path;
  std::optional<PretrainedFile> published;  ///< unset for a file that the user named
};

Result<WeightsSource> FindWeights(const std::string& network,
                                  const std::string& weights,
                                  const PolicyOptions& options) {
  LR_ASSIGN(PretrainedFile published, FindPretrainedResNet(network, weights));
  if (options.backbone_weights_file) {
    return WeightsSource{*options.backbone_weights_file, std::nullopt};
  }
  if (const char* path = std::getenv(kWeightsVariable); path != nullptr && *path != '\0') {
    return WeightsSource{path, std::nullopt};
  }
  fs::path cached = HubCachePath(published.file_name);
  return WeightsSource{std::move(cached), std::move(published)};
}

std::string HowToGet(const WeightsSource& source) {
  return fmt::format(
      "get them with `curl -L --create-dirs -o {} {}`, name a file in {}, or train from random "
      "weights with --policy.pretrained_backbone_weights=null",
      source.path.string(),
      source.published->url,
      kWeightsVariable);
}

Status LoadWeights(const WeightsSource& source,
                   const PolicyOptions& options,
                   ResNetImpl& backbone) {
  if (!fs::exists(source.path)) {
    if (!source.published) {
      return NotFound("backbone weights: no file '{}'", source.path.string());
    }
    return NotFound("the backbone's ImageNet weights are not on this machine: no file '{}'; {}",
                    source.path.string(),
                    HowToGet(source));
  }
  const bool is_safetensors = source.path.extension() == ".safetensors";
  if (is_safetensors && !options.read_safetensors) {
    return Unimplemented("backbone weights '{}': this program reads torch.save files only",
                         source.path.string());
  }
  LR_ASSIGN(const auto tensors,
            is_safetensors ? options.read_safetensors(source.path) : ReadTorchFile(source.path));
  return LoadBackbone(tensors, backbone).WithContext("backbone weights '{}'", source.path.string());
}

Result<std::shared_ptr<Policy>> CreateAct(const ActConfig& config, const PolicyOptions& options) {
  LR_ASSIGN(std::shared_ptr<ACTPolicy> policy, ACTPolicy::Create(config));
  ResNetImpl* backbone = policy->backbone();
  if (backbone != nullptr && options.load_backbone_weights && config.pretrained_backbone_weights) {
    LR_ASSIGN(const WeightsSource source,
              FindWeights(config.vision_backbone, *config.pretrained_backbone_weights, options));
    LR_TRY(LoadWeights(source, options, *backbone));
  }
  return std::shared_ptr<Policy>(std::move(policy));
}

bool MayHaveCameras(const PolicyConfig& config) {
  for (const auto& [key, feature] : config.input_features) {
    if (feature.type == FeatureType::kVisual) {
      return true;
    }
  }
  return config.input_features.empty();  // a fresh run takes them from the dataset later
}

}  // namespace

Status FetchPolicyFiles(const PolicyConfig& config, const PolicyOptions& options) {
  const auto* act = dynamic_cast<const ActConfig*>(&config);
  if (act == nullptr || !options.load_backbone_weights || !act->pretrained_backbone_weights ||
      !MayHaveCameras(config)) {
    return {};
  }
  LR_ASSIGN(const WeightsSource source,
            FindWeights(act->vision_backbone, *act->pretrained_backbone_weights, options));
  if (!source.published || fs::exists(source.path)) {
    return {};
  }
  const Status fetched = FetchFile(*source.published, source.path);
  if (!fetched.ok()) {
    return Status(fetched.code(), fmt::format("{}; {}", fetched.message(), HowToGet(source)))
        .WithContext("the backbone's ImageNet weights");
  }
  return {};
}

Result<std::shared_ptr<Policy>> CreatePolicy(const PolicyConfig& config,
                                             const PolicyOptions& options) {
  if (const auto* act = dynamic_cast<const ActConfig*>(&config)) {
    return CreateAct(*act, options);
  }
  return Unimplemented("policy type '{}' cannot be trained by this build; it has act", config.type);
}

std::vector<OptimizerGroup> MakeOptimizerGroups(const Policy& policy) {
  const auto parameters = policy.named_parameters();
  std::vector<OptimizerGroup> groups;
  for (const ParameterGroup& wanted : policy.ParameterGroups()) {
    OptimizerGroup group;
    group.names = wanted.names;
    group.lr = wanted.lr.value_or(0.0);
    group.lr_is_own = wanted.lr.has_value();
    for (const std::string& name : wanted.names) {
      group.params.push_back(parameters[name]);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace lr::worker
