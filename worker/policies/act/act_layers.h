#pragma once
/// The transformer blocks of ACT. Encoder and decoder layer are the sharding units, found by their
/// class names, which are LeRobot's; nothing outside a block touches its parameters.

#include <functional>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "worker/nn/linear.h"
#include "worker/nn/multihead_attention.h"
#include "worker/parallel/unit_module.h"
#include "worker/policies/act/act_config.h"

namespace lr::worker {

/// relu_, gelu (exact), by configuration word; the argument may be overwritten.
using Activation = std::function<at::Tensor(at::Tensor)>;

Activation MakeActivation(const std::string& name);

/// Self-attention and feed-forward block, normalised before (pre_norm) or after each.
class ACTEncoderLayerImpl : public UnitModule {
 public:
  explicit ACTEncoderLayerImpl(const ActConfig& config);

  /// x [L, B, D]; positions [L, 1, D] are added to queries and keys; `ignored_keys` [B, L] bool or
  /// undefined.
  at::Tensor forward(const at::Tensor& x,
                     const at::Tensor& positions,
                     const at::Tensor& ignored_keys = {});

 private:
  at::Tensor Run(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& ignored_keys);

  const bool pre_norm_;
  const double dropout_;
  const Activation activation_;
  MultiheadAttention self_attn_{nullptr};
  Linear linear1_{nullptr};
  Linear linear2_{nullptr};
  torch::nn::LayerNorm norm1_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
};

TORCH_MODULE(ACTEncoderLayer);

/// Self-attention, cross-attention to the encoder's output and feed-forward.
class ACTDecoderLayerImpl : public UnitModule {
 public:
  explicit ACTDecoderLayerImpl(const ActConfig& config);

  /// x [T, B, D] with positions [T, 1, D]; memory [S, B, D] with positions [S, 1, D].
  at::Tensor forward(const at::Tensor& x,
                     const at::Tensor& positions,
                     const at::Tensor& memory,
                     const at::Tensor& memory_positions);

 private:
  at::Tensor Run(const at::Tensor& x,
                 const at::Tensor& positions,
                 const at::Tensor& memory,
                 const at::Tensor& memory_positions);
  at::Tensor FeedForward(const at::Tensor& x);

  const bool pre_norm_;
  const double dropout_;
  const Activation activation_;
  MultiheadAttention self_attn_{nullptr};
  MultiheadAttention multihead_attn_{nullptr};
  Linear linear1_{nullptr};
  Linear linear2_{nullptr};
  torch::nn::LayerNorm norm1_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
  torch::nn::LayerNorm norm3_{nullptr};
};

TORCH_MODULE(ACTDecoderLayer);

/// A stack of encoder layers; with pre_norm a last normalisation.
class ACTEncoderImpl : public torch::nn::Module {
 public:
  ACTEncoderImpl(const ActConfig& config, int64_t n_layers);

  at::Tensor forward(at::Tensor x,
                     const at::Tensor& positions,
                     const at::Tensor& ignored_keys = {});

 private:
  std::vector<ACTEncoderLayer> layers_;
  torch::nn::LayerNorm norm_{nullptr};  // null without pre_norm
};

TORCH_MODULE(ACTEncoder);

/// A stack of decoder layers and a normalisation.
class ACTDecoderImpl : public torch::nn::Module {
 public:
  explicit ACTDecoderImpl(const ActConfig& config);

  at::Tensor forward(at::Tensor x,
                     const at::Tensor& positions,
                     const at::Tensor& memory,
                     const at::Tensor& memory_positions);

 private:
  std::vector<ACTDecoderLayer> layers_;
  torch::nn::LayerNorm norm_{nullptr};
};

TORCH_MODULE(ACTDecoder);

}  // namespace lr::worker
