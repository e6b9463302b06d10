#pragma once
/// ACT as a policy: loss, parameter groups, and the queue or ensemble that serves single actions.
///
/// Thread: one caller at a time. Batches are normalised by the preprocessor; a batch that lacks
/// what the configuration names throws.

#include <deque>
#include <memory>
#include <optional>

#include "worker/policies/act/act_network.h"
#include "worker/policies/act/temporal_ensembler.h"
#include "worker/policies/policy.h"

namespace lr::worker {

class ACTPolicy final : public Policy {
 public:
  /// Draws the initial weights, backbone included. Errors: FindActFeatures, FindResNet;
  /// kUnimplemented for a dilated last stage on a network of basic blocks.
  static Result<std::shared_ptr<ACTPolicy>> Create(const ActConfig& config);

  const PolicyConfig& config() const override { return config_; }

  /// Masked L1 error plus, in training, kl_weight times the divergence of the latent. Metrics:
  /// l1_loss, kld_loss.
  PolicyOutput forward(const Batch& batch) override;

  /// Everything but the backbone, then the backbone with its own rate.
  std::vector<ParameterGroup> ParameterGroups() const override;

  at::Tensor PredictActionChunk(const Batch& batch) override;
  at::Tensor SelectAction(const Batch& batch) override;
  void Reset() override;

  bool constant_buffers() const override { return true; }

  std::vector<std::string> wrap_modules() const override {
    return {"ACTEncoderLayer", "ACTDecoderLayer"};
  }

  /// Null without cameras.
  ResNetImpl* backbone() { return model_->backbone(); }

 private:
  ACTPolicy(const ActConfig& config, ActFeatures features, const ResNetShape& backbone);

  const ActConfig config_;
  ACT model_{nullptr};
  std::optional<TemporalEnsembler> ensembler_;
  std::deque<at::Tensor> queue_;  ///< actions [B, A] still to be served
};

}  // namespace lr::worker
