#pragma once
/// ACT, the network (Zhao et al. 2023): a conditional variational autoencoder whose decoder turns
/// camera features and joint positions into a chunk of future actions.
///
/// Names, shapes, registration order, initial draws and the order of random draws in training are
/// LeRobot's (policies.md A.4 to A.9). Thread: step thread. Wrong batches throw, as LibTorch does.

#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

#include "worker/data/batch.h"
#include "worker/nn/linear.h"
#include "worker/nn/position_codes.h"
#include "worker/nn/resnet.h"
#include "worker/policies/act/act_config.h"
#include "worker/policies/act/act_layers.h"

namespace lr::worker {

/// What ACT reads and writes, from the configuration's features.
struct ActFeatures {
  std::vector<std::string> cameras;   ///< keys in configuration order
  std::optional<int64_t> state_size;  ///< width of observation.state
  std::string env_key;                ///< the first ENV feature
  std::optional<int64_t> env_size;
  int64_t action_size = 0;
};

/// (pure) kInvalidArgument when ACT cannot work with these features or sizes: no camera and no
/// environment state, no one-dimensional `action`, frames smaller than 32 pixels, a width that its
/// heads or position codes do not divide.
Result<ActFeatures> FindActFeatures(const ActConfig& config);

class ACTImpl : public torch::nn::Module {
 public:
  /// `config` and `features` have passed FindActFeatures.
  ACTImpl(const ActConfig& config, ActFeatures features, const ResNetShape& backbone);

  struct Output {
    at::Tensor actions;      ///< [B, T, A]
    at::Tensor latent_mean;  ///< [B, Z]; undefined when the VAE branch did not run
    at::Tensor latent_log_variance;
  };

  /// The VAE branch runs in training mode with use_vae; it needs `action` and `action_is_pad`.
  Output forward(const Batch& batch);

  /// Null without cameras.
  ResNetImpl* backbone() { return backbone_ ? backbone_.get() : nullptr; }

 private:
  void AddVaeEncoder();
  void AddTransformer(const ResNetShape& backbone);
  void DrawXavier();

  at::Tensor EncodeLatent(const Batch& batch, Output& output);
  void AppendCameraTokens(const Batch& batch,
                          std::vector<at::Tensor>& tokens,
                          std::vector<at::Tensor>& positions);

  const ActConfig config_;
  const ActFeatures features_;
  PixelPositionCodes pixel_codes_;

  ACTEncoder vae_encoder_{nullptr};
  torch::nn::Embedding vae_encoder_cls_embed_{nullptr};
  Linear vae_encoder_robot_state_input_proj_{nullptr};
  Linear vae_encoder_action_input_proj_{nullptr};
  Linear vae_encoder_latent_output_proj_{nullptr};
  at::Tensor vae_encoder_pos_enc_;
  ResNet backbone_{nullptr};
  ACTEncoder encoder_{nullptr};
  ACTDecoder decoder_{nullptr};
  Linear encoder_robot_state_input_proj_{nullptr};
  Linear encoder_env_state_input_proj_{nullptr};
  Linear encoder_latent_input_proj_{nullptr};
  torch::nn::Conv2d encoder_img_feat_input_proj_{nullptr};
  torch::nn::Embedding encoder_1d_feature_pos_embed_{nullptr};
  torch::nn::Embedding decoder_pos_embed_{nullptr};
  Linear action_head_{nullptr};
};

TORCH_MODULE(ACT);

}  // namespace lr::worker
