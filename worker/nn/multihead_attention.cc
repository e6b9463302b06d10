// Attention as torch.nn.functional.multi_head_attention_forward(need_weights=True) computes it
// (Vaswani et al. 2017). Dimensions: L queries, S keys, B batch, H heads, D width, K = D / H.
// Thread: step thread.
#include "worker/nn/multihead_attention.h"

#include <cmath>
#include <limits>

#include <torch/nn/init.h>

namespace lr::worker {

namespace {

/// [L, B, D] -> [B * H, L, K], a view.
at::Tensor SplitHeads(const at::Tensor& x_LBD, int64_t n_heads) {
  const int64_t length = x_LBD.size(0);
  return x_LBD.view({length, x_LBD.size(1) * n_heads, x_LBD.size(2) / n_heads}).transpose(0, 1);
}

}  // namespace

MultiheadAttentionImpl::MultiheadAttentionImpl(int64_t dim, int64_t n_heads, double dropout)
    : n_heads_(n_heads), dropout_(dropout) {
  in_proj_weight_ = register_parameter("in_proj_weight", at::empty({3 * dim, dim}));
  in_proj_bias_ = register_parameter("in_proj_bias", at::zeros({3 * dim}));
  out_proj_ = register_module("out_proj", Linear(dim, dim));
  torch::nn::init::xavier_uniform_(in_proj_weight_);
  torch::nn::init::zeros_(out_proj_->bias);
}

at::Tensor MultiheadAttentionImpl::forward(const at::Tensor& query,
                                           const at::Tensor& key,
                                           const at::Tensor& value,
                                           const at::Tensor& ignored_keys) {
  const int64_t dim = query.size(2);
  const std::vector<at::Tensor> weights = in_proj_weight_.chunk(3);
  const std::vector<at::Tensor> biases = in_proj_bias_.chunk(3);
  const at::Tensor q = SplitHeads(at::linear(query, weights[0], biases[0]), n_heads_);
  const at::Tensor k = SplitHeads(at::linear(key, weights[1], biases[1]), n_heads_);
  const at::Tensor v = SplitHeads(at::linear(value, weights[2], biases[2]), n_heads_);

  const at::Tensor attention =
      at::dropout(Scores(q, k, ignored_keys).softmax(-1), dropout_, is_training());
  const at::Tensor mixed =
      at::bmm(attention, v).transpose(0, 1).reshape({query.size(0), query.size(1), dim});
  return out_proj_->forward(mixed);
}

at::Tensor MultiheadAttentionImpl::Scores(const at::Tensor& q,
                                          const at::Tensor& k,
                                          const at::Tensor& ignored_keys) const {
  const at::Tensor scaled = q * std::sqrt(1.0 / static_cast<double>(q.size(2)));
  if (!ignored_keys.defined()) {
    return at::bmm(scaled, k.transpose(1, 2));
  }
  const int64_t batch = ignored_keys.size(0);
  const int64_t keys = ignored_keys.size(1);
  const at::Tensor mask = at::zeros({batch, 1, 1, keys}, scaled.options())
                              .masked_fill_(ignored_keys.view({batch, 1, 1, keys}),
                                            -std::numeric_limits<double>::infinity())
                              .expand({batch, n_heads_, 1, keys})
                              .reshape({batch * n_heads_, 1, keys});
  return at::baddbmm(mask, scaled, k.transpose(1, 2));
}

}  // namespace lr::worker
