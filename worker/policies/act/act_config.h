#pragma once
/// ACT's configuration (policies.md A.1): fields, defaults, validation, presets. No LibTorch.

#include "worker/policies/policy_config.h"

namespace lr::worker {

struct ActConfig : PolicyConfig {
  ActConfig();  // type "act"; VISUAL, STATE and ACTION normalised by mean and standard deviation

  int64_t chunk_size = 100;
  int64_t n_action_steps = 100;
  std::string vision_backbone = "resnet18";
  std::optional<std::string> pretrained_backbone_weights = "ResNet18_Weights.IMAGENET1K_V1";
  int64_t replace_final_stride_with_dilation =
      0;  ///< int-typed upstream; its default is written as `false`
  bool pre_norm = false;
  int64_t dim_model = 512;
  int64_t n_heads = 8;
  int64_t dim_feedforward = 3200;
  std::string feedforward_activation = "relu";
  int64_t n_encoder_layers = 4;
  int64_t n_decoder_layers = 1;
  bool use_vae = true;
  int64_t latent_dim = 32;
  int64_t n_vae_encoder_layers = 4;
  std::optional<double> temporal_ensemble_coeff;
  double dropout = 0.1;
  double kl_weight = 10.0;
  double optimizer_lr = 1e-5;
  double optimizer_weight_decay = 1e-4;
  double optimizer_lr_backbone = 1e-5;

  std::unique_ptr<PolicyConfig> Clone() const override;
  Status Validate() const override;
  PolicyWindows Windows() const override;
  void Describe(config::Group& group) override;
  OptimizerConfig OptimizerPreset() const override;
  std::vector<std::pair<std::string, double*>> OwnLearningRates() override;
};

}  // namespace lr::worker
