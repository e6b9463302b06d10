#pragma once
/// ImageNet weights of the ResNet backbones: which file a name means, where it is kept, and how it
/// gets there (policies.md A.10). Called while a policy is made, before training; blocking.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"

namespace torch::nn {
class Module;
}

namespace lr::worker {

/// One published file. The first digits of its SHA-256 are part of its name, as in torch's hub.
struct PretrainedFile {
  std::string url;
  std::string file_name;
  std::string hash_prefix;
};

/// (pure) `weights` as LeRobot spells them: ResNet18_Weights.IMAGENET1K_V1,
/// ResNet18_Weights.DEFAULT, or without the class. kInvalidArgument when the weights belong to
/// another network or do not exist, with what to change.
Result<PretrainedFile> FindPretrainedResNet(const std::string& network, const std::string& weights);

/// Where torch's hub keeps such a file: $TORCH_HOME, else $XDG_CACHE_HOME/torch, else
/// ~/.cache/torch; then hub/checkpoints/<name>.
std::filesystem::path HubCachePath(const std::string& file_name);

/// Downloads with the installed `curl` into a sibling of `target`, checks the hash and renames. The
/// URL may be file://. Errors: kUnavailable when curl is missing or fails, kDataLoss when the hash
/// differs; `target` is then untouched.
Status FetchFile(const PretrainedFile& file, const std::filesystem::path& target);

/// Copies an ImageNet state dict (conv1.weight, bn1.running_mean, …) into a backbone; the
/// classifier and num_batches_tracked are dropped. kInvalidArgument when a tensor is missing, too
/// many or of another shape; the module is then untouched.
Status LoadBackbone(const std::vector<std::pair<std::string, at::Tensor>>& weights,
                    torch::nn::Module& backbone);

}  // namespace lr::worker
