#pragma once
/// The interface every policy implements. A policy is written as if one device existed; the engine
/// (DDP, FSDP) wraps it.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "worker/data/batch.h"
#include "worker/policies/policy_config.h"

namespace lr::worker {

struct PolicyOutput {
  at::Tensor loss;  ///< 0-d, requires grad in training
  std::vector<std::pair<std::string, at::Tensor>>
      metrics;  ///< 0-d, detached, in the order they are logged
};

/// For the engine: of an output only the loss takes part in autograd.
template <typename Visitor>
void VisitTensors(PolicyOutput& output, Visitor&& visit) {
  visit(output.loss);
}

/// Parameters (by full name, registration order) that share hyper-parameters; `lr` overrides the
/// optimizer's.
struct ParameterGroup {
  std::vector<std::string> names;
  std::optional<double> lr;
};

class Policy : public torch::nn::Module {
 public:
  virtual const PolicyConfig& config() const = 0;

  /// Loss of one preprocessed batch. In evaluation mode: the held-out loss.
  virtual PolicyOutput forward(const Batch& batch) = 0;

  /// Trainable parameters by group; the optimizer state indices in checkpoints run over these in
  /// order.
  virtual std::vector<ParameterGroup> ParameterGroups() const = 0;

  /// Normalised actions [B, T, A]; switches to evaluation mode, no gradient.
  virtual at::Tensor PredictActionChunk(const Batch& batch) = 0;

  /// Next normalised action [B, A] from the queue or the temporal ensemble.
  virtual at::Tensor SelectAction(const Batch& batch) = 0;

  /// Forgets queued actions; call at every episode start.
  virtual void Reset() = 0;

  /// True when no buffer changes in training, so that replicas need not exchange them.
  virtual bool constant_buffers() const { return false; }

  /// Class names of the blocks that form sharding units; empty when the policy declares none.
  virtual std::vector<std::string> wrap_modules() const { return {}; }
};

}  // namespace lr::worker
