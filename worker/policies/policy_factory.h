#pragma once
/// Makes the policy that a configuration describes, and the parameter groups its optimizer works
/// on.
///
/// Called once per process by the trainer and the evaluation tools, on the step thread, after
/// seeding: construction draws from the default CPU generator in LeRobot's order. In a distributed
/// run one process calls FetchPolicyFiles, all meet at a barrier, then all call CreatePolicy.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/optim/optimizer.h"
#include "worker/policies/policy.h"
#include "worker/policies/policy_config.h"

namespace lr::worker {

/// Reads all tensors of a file.
using TensorFileReader = std::function<Result<std::vector<std::pair<std::string, at::Tensor>>>(
    const std::filesystem::path&)>;

struct PolicyOptions {
  /// Backbone weights to use instead of those in the torch hub cache, with torchvision's names: a
  /// torch.save file, or safetensors. Unset: the environment variable LR_BACKBONE_WEIGHTS, if any.
  /// Not looked at when the configuration asks for random weights.
  std::optional<std::string> backbone_weights_file;

  /// For files ending in .safetensors; unset, these are refused.
  TensorFileReader read_safetensors;

  /// False when a checkpoint with all weights is loaded right afterwards: nothing is read or
  /// fetched then. The random draws are the same either way.
  bool load_backbone_weights = true;
};

/// Downloads what CreatePolicy will read and what is not there yet (ImageNet weights into torch's
/// hub cache). Only one process per machine may call it.
/// Errors: kUnavailable with the URL, the path and the flag that disables pretraining.
Status FetchPolicyFiles(const PolicyConfig& config, const PolicyOptions& options = {});

/// A new policy on the CPU in training mode. Never downloads.
/// Errors: kUnimplemented for a type this build cannot make, kInvalidArgument for a configuration
/// that cannot work with its features, kNotFound when the backbone weights are not on this machine.
Result<std::shared_ptr<Policy>> CreatePolicy(const PolicyConfig& config,
                                             const PolicyOptions& options = {});

/// The policy's groups with their parameters, ready for Optimizer::Create.
std::vector<OptimizerGroup> MakeOptimizerGroups(const Policy& policy);

}  // namespace lr::worker
