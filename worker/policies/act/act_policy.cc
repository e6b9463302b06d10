// ACT's loss and its service of single actions (policies.md A.7, A.8).
#include "worker/policies/act/act_policy.h"

namespace lr::worker {

namespace {

/// Mean absolute error over the valid steps; 0 when all are padding.
at::Tensor MaskedL1(const at::Tensor& actions_BTA,
                    const at::Tensor& target_BTA,
                    const at::Tensor& padding_BT) {
  const at::Tensor valid = padding_BT.logical_not().unsqueeze(2);
  const at::Tensor count = (valid.sum() * target_BTA.size(2)).clamp_min(1);
  return ((target_BTA - actions_BTA).abs() * valid).sum() / count;
}

/// Divergence of the latent from a standard normal, summed over its dimensions, averaged over the
/// batch.
at::Tensor KullbackLeibler(const at::Tensor& mean_BZ, const at::Tensor& log_variance_BZ) {
  return (-0.5 * (1 + log_variance_BZ - mean_BZ.pow(2) - log_variance_BZ.exp())).sum(-1).mean();
}

}  // namespace

Result<std::shared_ptr<ACTPolicy>> ACTPolicy::Create(const ActConfig& config) {
  LR_ASSIGN(ActFeatures features, FindActFeatures(config));
  LR_ASSIGN(const ResNetShape backbone, FindResNet(config.vision_backbone));
  if (config.replace_final_stride_with_dilation != 0 && !backbone.bottleneck) {
    return Unimplemented(
        "policy.replace_final_stride_with_dilation needs resnet50, resnet101 or resnet152 ('{}' "
        "cannot)",
        config.vision_backbone);
  }
  return std::shared_ptr<ACTPolicy>(new ACTPolicy(config, std::move(features), backbone));
}

ACTPolicy::ACTPolicy(const ActConfig& config, ActFeatures features, const ResNetShape& backbone)
    : config_(config),
      model_(register_module("model", ACT(config, std::move(features), backbone))) {
  if (config_.temporal_ensemble_coeff) {
    ensembler_.emplace(*config_.temporal_ensemble_coeff, config_.chunk_size);
  }
}

PolicyOutput ACTPolicy::forward(const Batch& batch) {
  const ACTImpl::Output predicted = model_(batch);
  const at::Tensor* target = batch.Find("action");
  const at::Tensor* padding = batch.Find("action_is_pad");
  TORCH_CHECK(target != nullptr && padding != nullptr,
              "the loss needs 'action' and 'action_is_pad' in the batch");

  PolicyOutput output;
  const at::Tensor l1 = MaskedL1(predicted.actions, *target, *padding);
  output.metrics.emplace_back("l1_loss", l1.detach());
  output.loss = l1;
  if (predicted.latent_mean.defined()) {
    const at::Tensor divergence =
        KullbackLeibler(predicted.latent_mean, predicted.latent_log_variance);
    output.metrics.emplace_back("kld_loss", divergence.detach());
    output.loss = l1 + divergence * config_.kl_weight;
  }
  return output;
}

std::vector<ParameterGroup> ACTPolicy::ParameterGroups() const {
  std::vector<ParameterGroup> groups(2);
  groups[1].lr = config_.optimizer_lr_backbone;
  for (const auto& item : named_parameters()) {
    if (item.value().requires_grad()) {
      groups[item.key().starts_with("model.backbone") ? 1 : 0].names.push_back(item.key());
    }
  }
  return groups;
}

at::Tensor ACTPolicy::PredictActionChunk(const Batch& batch) {
  eval();
  const at::NoGradGuard no_grad;
  return model_(batch).actions;
}

at::Tensor ACTPolicy::SelectAction(const Batch& batch) {
  if (ensembler_) {
    return ensembler_->Update(PredictActionChunk(batch));
  }
  if (queue_.empty()) {
    const at::Tensor chunk_BTA = PredictActionChunk(batch);
    for (int64_t step = 0; step < config_.n_action_steps; ++step) {
      queue_.push_back(chunk_BTA.select(1, step));
    }
  }
  at::Tensor action = queue_.front();
  queue_.pop_front();
  return action;
}

void ACTPolicy::Reset() {
  queue_.clear();
  if (ensembler_) {
    ensembler_->Reset();
  }
}

}  // namespace lr::worker
