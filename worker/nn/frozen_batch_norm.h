#pragma once
/// Batch normalisation with constant statistics: four buffers, no parameters, the same in training
/// and evaluation.

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

namespace lr::worker {

class FrozenBatchNorm2dImpl : public torch::nn::Module {
 public:
  explicit FrozenBatchNorm2dImpl(int64_t channels);

  /// The normalisation as y = x * scale + shift, both [channels].
  struct Affine {
    at::Tensor scale;
    at::Tensor shift;
  };

  Affine affine() const;

  /// x [B, C, H, W].
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  at::Tensor bias_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
};

TORCH_MODULE(FrozenBatchNorm2d);

/// bn(conv(x)) as one convolution: the scale goes into the weights, the shift is the bias. The
/// activations are passed over once instead of three times, forward and backward; results differ by
/// rounding only. `conv` has no bias.
at::Tensor ConvolveAndNormalize(const torch::nn::Conv2dImpl& conv,
                                const FrozenBatchNorm2dImpl& norm,
                                const at::Tensor& x);

}  // namespace lr::worker
