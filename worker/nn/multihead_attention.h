#pragma once
/// Multi-head attention on the explicit path: matmul, softmax, dropout, matmul.
///
/// It is what PyTorch's MultiheadAttention computes when asked for the attention weights, as
/// LeRobot's policies do: same parameters, same initial draws, same dropout stream. The fused
/// kernel would be faster by little at these lengths and would change the stream.

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "worker/nn/linear.h"

namespace lr::worker {

class MultiheadAttentionImpl : public torch::nn::Module {
 public:
  /// Draws out_proj's weight and bias, then in_proj_weight. `dim` is a multiple of `n_heads`.
  MultiheadAttentionImpl(int64_t dim, int64_t n_heads, double dropout);

  /// Shapes: query [L, B, D]; key, value [S, B, D]; result [L, B, D].
  /// `ignored_keys`: [B, S] bool, true for keys nobody may attend to; undefined for none.
  at::Tensor forward(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const at::Tensor& ignored_keys = {});

 private:
  at::Tensor Scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& ignored_keys) const;

  const int64_t n_heads_;
  const double dropout_;
  at::Tensor in_proj_weight_;
  at::Tensor in_proj_bias_;
  Linear out_proj_{nullptr};
};

TORCH_MODULE(MultiheadAttention);

}  // namespace lr::worker
