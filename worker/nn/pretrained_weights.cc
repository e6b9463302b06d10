// The table of published weights, torch's cache folder, and the copy into a module. Errors name
// file and field.
#include "worker/nn/pretrained_weights.h"

#include <cstdlib>
#include <map>

#include <torch/nn/module.h>

#include "common/base/text.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

struct Published {
  std::string weights_class;
  std::map<std::string, std::string> hash_of_version;
  std::string default_version;
};

/// torchvision's ResNet weights: the file is <network>-<hash>.pth.
const std::map<std::string, Published>& PublishedResNets() {
  static const std::map<std::string, Published> table = {
      {"resnet18", {"ResNet18_Weights", {{"IMAGENET1K_V1", "f37072fd"}}, "IMAGENET1K_V1"}},
      {"resnet34", {"ResNet34_Weights", {{"IMAGENET1K_V1", "b627a593"}}, "IMAGENET1K_V1"}},
      {"resnet50",
       {"ResNet50_Weights",
        {{"IMAGENET1K_V1", "0676ba61"}, {"IMAGENET1K_V2", "11ad3fa6"}},
        "IMAGENET1K_V2"}},
      {"resnet101",
       {"ResNet101_Weights",
        {{"IMAGENET1K_V1", "63fe2227"}, {"IMAGENET1K_V2", "cd907fc2"}},
        "IMAGENET1K_V2"}},
      {"resnet152",
       {"ResNet152_Weights",
        {{"IMAGENET1K_V1", "394f9c45"}, {"IMAGENET1K_V2", "f82ba261"}},
        "IMAGENET1K_V2"}},
  };
  return table;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsDropped(const std::string& name) {
  return name.starts_with("fc.") || name.ends_with(".num_batches_tracked");
}

std::map<std::string, at::Tensor> TensorsOf(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : module.named_parameters()) {
    tensors[item.key()] = item.value();
  }
  for (const auto& item : module.named_buffers()) {
    tensors[item.key()] = item.value();
  }
  return tensors;
}

}  // namespace

Result<PretrainedFile> FindPretrainedResNet(const std::string& network,
                                            const std::string& weights) {
  const auto found = PublishedResNets().find(network);
  if (found == PublishedResNets().end()) {
    return InvalidArgument("there are no published weights for vision_backbone '{}'", network);
  }
  const Published& published = found->second;
  const size_t dot = weights.find('.');
  const std::string weights_class =
      dot == std::string::npos ? published.weights_class : weights.substr(0, dot);
  std::string version = dot == std::string::npos ? weights : weights.substr(dot + 1);
  if (version == "DEFAULT") {
    version = published.default_version;
  }
  const auto hash = published.hash_of_version.find(version);
  if (weights_class != published.weights_class || hash == published.hash_of_version.end()) {
    std::vector<std::string> names = {published.weights_class + ".DEFAULT"};
    for (const auto& [known, unused] : published.hash_of_version) {
      names.push_back(published.weights_class + "." + known);
    }
    return InvalidArgument(
        "policy.pretrained_backbone_weights '{}' does not belong to policy.vision_backbone '{}'; "
        "set it to {}, or to null "
        "for random weights",
        weights,
        network,
        Join(names, " or "));
  }
  const std::string file_name = fmt::format("{}-{}.pth", network, hash->second);
  return PretrainedFile{
      "https://download.pytorch.org/models/" + file_name, file_name, hash->second};
}

fs::path HubCachePath(const std::string& file_name) {
  fs::path home = Environment("TORCH_HOME");
  if (home.empty()) {
    const std::string cache = Environment("XDG_CACHE_HOME");
    home = (cache.empty() ? fs::path(Environment("HOME")) / ".cache" : fs::path(cache)) / "torch";
  }
  return home / "hub" / "checkpoints" / file_name;
}

Status LoadBackbone(const std::vector<std::pair<std::string, at::Tensor>>& weights,
                    torch::nn::Module& backbone) {
  std::map<std::string, at::Tensor> targets = TensorsOf(backbone);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, value] : weights) {
    if (IsDropped(name)) {
      continue;
    }
    const auto target = targets.find(name);
    if (target == targets.end()) {
      return InvalidArgument("tensor '{}' is not part of the backbone", name);
    }
    if (target->second.sizes() != value.sizes()) {
      return InvalidArgument("tensor '{}' has shape [{}], the backbone's has [{}]",
                             name,
                             fmt::join(value.sizes(), ", "),
                             fmt::join(target->second.sizes(), ", "));
    }
    copies.emplace_back(target->second, value);
    targets.erase(target);
  }
  if (!targets.empty()) {
    return InvalidArgument("{} tensors of the backbone are missing, the first is '{}'",
                           targets.size(),
                           targets.begin()->first);
  }
  const at::NoGradGuard no_grad;
  for (auto& [target, value] : copies) {
    target.copy_(value);
  }
  return {};
}

}  // namespace lr::worker
