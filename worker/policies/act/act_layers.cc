// ACT's transformer blocks. The order of modules is the order of LeRobot's initial draws and of its
// state dict; the order of dropouts is that of its training stream. Thread: step thread.
#include "worker/policies/act/act_layers.h"

#include "common/base/check.h"

namespace lr::worker {

namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;

LayerNorm Normalization(int64_t dim) {
  return LayerNorm(LayerNormOptions({dim}));
}

/// Layers under the names layers.0, layers.1, …
template <typename Layer>
std::vector<Layer> AddLayers(torch::nn::Module& parent, const ActConfig& config, int64_t count) {
  auto holder = std::make_shared<torch::nn::Module>();
  std::vector<Layer> layers;
  for (int64_t i = 0; i < count; ++i) {
    layers.push_back(holder->register_module(std::to_string(i), Layer(config)));
  }
  parent.register_module("layers", holder);
  return layers;
}

}  // namespace

Activation MakeActivation(const std::string& name) {
  if (name == "gelu") {
    return [](const at::Tensor& x) { return at::gelu(x); };
  }
  LR_CHECK(name == "relu", "activation '{}' was not refused by the configuration", name);
  return [](at::Tensor x) { return x.relu_(); };
}

ACTEncoderLayerImpl::ACTEncoderLayerImpl(const ActConfig& config)
    : pre_norm_(config.pre_norm),
      dropout_(config.dropout),
      activation_(MakeActivation(config.feedforward_activation)) {
  const int64_t dim = config.dim_model;
  self_attn_ =
      register_module("self_attn", MultiheadAttention(dim, config.n_heads, config.dropout));
  linear1_ = register_module("linear1", Linear(dim, config.dim_feedforward));
  linear2_ = register_module("linear2", Linear(config.dim_feedforward, dim));
  norm1_ = register_module("norm1", Normalization(dim));
  norm2_ = register_module("norm2", Normalization(dim));
}

at::Tensor ACTEncoderLayerImpl::forward(const at::Tensor& x,
                                        const at::Tensor& positions,
                                        const at::Tensor& ignored_keys) {
  return CallAsUnit(
      [this](const auto&... inputs) { return Run(inputs...); }, x, positions, ignored_keys);
}

at::Tensor ACTEncoderLayerImpl::Run(const at::Tensor& x,
                                    const at::Tensor& positions,
                                    const at::Tensor& ignored_keys) {
  const auto drop = [this](const at::Tensor& t) { return at::dropout(t, dropout_, is_training()); };
  const at::Tensor tokens = pre_norm_ ? norm1_(x) : x;
  const at::Tensor placed = tokens + positions;
  at::Tensor y = x + drop(self_attn_(placed, placed, tokens, ignored_keys));
  if (!pre_norm_) {
    y = norm1_(y);
  }
  const at::Tensor hidden = drop(activation_(linear1_(pre_norm_ ? norm2_(y) : y)));
  y = y + drop(linear2_(hidden));
  return pre_norm_ ? y : norm2_(y);
}

ACTDecoderLayerImpl::ACTDecoderLayerImpl(const ActConfig& config)
    : pre_norm_(config.pre_norm),
      dropout_(config.dropout),
      activation_(MakeActivation(config.feedforward_activation)) {
  const int64_t dim = config.dim_model;
  self_attn_ =
      register_module("self_attn", MultiheadAttention(dim, config.n_heads, config.dropout));
  multihead_attn_ =
      register_module("multihead_attn", MultiheadAttention(dim, config.n_heads, config.dropout));
  linear1_ = register_module("linear1", Linear(dim, config.dim_feedforward));
  linear2_ = register_module("linear2", Linear(config.dim_feedforward, dim));
  norm1_ = register_module("norm1", Normalization(dim));
  norm2_ = register_module("norm2", Normalization(dim));
  norm3_ = register_module("norm3", Normalization(dim));
}

at::Tensor ACTDecoderLayerImpl::FeedForward(const at::Tensor& x) {
  const at::Tensor hidden = at::dropout(activation_(linear1_(x)), dropout_, is_training());
  return at::dropout(linear2_(hidden), dropout_, is_training());
}

at::Tensor ACTDecoderLayerImpl::forward(const at::Tensor& x,
                                        const at::Tensor& positions,
                                        const at::Tensor& memory,
                                        const at::Tensor& memory_positions) {
  return CallAsUnit([this](const auto&... inputs) { return Run(inputs...); },
                    x,
                    positions,
                    memory,
                    memory_positions);
}

at::Tensor ACTDecoderLayerImpl::Run(const at::Tensor& x,
                                    const at::Tensor& positions,
                                    const at::Tensor& memory,
                                    const at::Tensor& memory_positions) {
  const auto drop = [this](const at::Tensor& t) { return at::dropout(t, dropout_, is_training()); };
  const at::Tensor placed_memory = memory + memory_positions;
  if (pre_norm_) {
    const at::Tensor tokens = norm1_(x);
    const at::Tensor placed = tokens + positions;
    at::Tensor y = x + drop(self_attn_(placed, placed, tokens));
    y = y + drop(multihead_attn_(norm2_(y) + positions, placed_memory, memory));
    return y + FeedForward(norm3_(y));
  }
  const at::Tensor placed = x + positions;
  at::Tensor y = norm1_(x + drop(self_attn_(placed, placed, x)));
  y = norm2_(y + drop(multihead_attn_(y + positions, placed_memory, memory)));
  return norm3_(y + FeedForward(y));
}

ACTEncoderImpl::ACTEncoderImpl(const ActConfig& config, int64_t n_layers)
    : layers_(AddLayers<ACTEncoderLayer>(*this, config, n_layers)) {
  if (config.pre_norm) {
    norm_ = register_module("norm", Normalization(config.dim_model));
  }
}

at::Tensor ACTEncoderImpl::forward(at::Tensor x,
                                   const at::Tensor& positions,
                                   const at::Tensor& ignored_keys) {
  for (ACTEncoderLayer& layer : layers_) {
    x = layer(x, positions, ignored_keys);
  }
  return norm_ ? norm_(x) : x;
}

ACTDecoderImpl::ACTDecoderImpl(const ActConfig& config)
    : layers_(AddLayers<ACTDecoderLayer>(*this, config, config.n_decoder_layers)) {
  norm_ = register_module("norm", Normalization(config.dim_model));
}

at::Tensor ACTDecoderImpl::forward(at::Tensor x,
                                   const at::Tensor& positions,
                                   const at::Tensor& memory,
                                   const at::Tensor& memory_positions) {
  for (ACTDecoderLayer& layer : layers_) {
    x = layer(x, positions, memory, memory_positions);
  }
  return norm_(x);
}

}  // namespace lr::worker
