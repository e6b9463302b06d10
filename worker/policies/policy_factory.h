#pragma once
/// Makes the policy that a configuration describes, and the parameter groups its optimizer works
/// on.
///
/// Called once per process by the trainer and the evaluation tools, on the step thread, after
/// seeding: construction draws from the default CPU generator in LeRobot's order. In a distributed
/// run one process calls FetchPolicyFiles, all meet at a barrier, then all call CreatePolicy.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/optim/optimizer.h"
#include "worker/policies/policy.h"
#include "worker/policies/policy_config.h"

namespace lr::worker {

struct PolicyOptions {
  /// Backbone weights to use instead of the torch hub cache: safetensors or a torch.save archive
  /// with torchvision's names. Unset: the environment variable LR_BACKBONE_WEIGHTS, if any.
  std::optional<std::string> backbone_weights_file;

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
