// torchvision's FrozenBatchNorm2d, and its fusion into the convolution before it. Thread: step
// thread.
#include "worker/nn/frozen_batch_norm.h"

namespace lr::worker {

namespace {

constexpr double kEpsilon = 1e-5;

}  // namespace

FrozenBatchNorm2dImpl::FrozenBatchNorm2dImpl(int64_t channels) {
  weight_ = register_buffer("weight", at::ones({channels}));
  bias_ = register_buffer("bias", at::zeros({channels}));
  running_mean_ = register_buffer("running_mean", at::zeros({channels}));
  running_var_ = register_buffer("running_var", at::ones({channels}));
}

FrozenBatchNorm2dImpl::Affine FrozenBatchNorm2dImpl::affine() const {
  const at::Tensor scale = weight_ * (running_var_ + kEpsilon).rsqrt();
  return {scale, bias_ - running_mean_ * scale};
}

at::Tensor FrozenBatchNorm2dImpl::forward(const at::Tensor& x) const {
  const auto [scale, shift] = affine();
  return x * scale.view({1, -1, 1, 1}) + shift.view({1, -1, 1, 1});
}

at::Tensor ConvolveAndNormalize(const torch::nn::Conv2dImpl& conv,
                                const FrozenBatchNorm2dImpl& norm,
                                const at::Tensor& x) {
  const auto [scale, shift] = norm.affine();
  const at::Tensor& weight = conv.weight;
  const auto& options = conv.options;
  // Buffers may be kept in a wider type than the parameters; the convolution runs in the
  // parameters' type.
  const at::Tensor scaled = (weight * scale.view({-1, 1, 1, 1})).to(weight.scalar_type());
  return at::conv2d(x,
                    scaled,
                    shift.to(weight.scalar_type()),
                    options.stride(),
                    std::get<torch::ExpandingArray<2>>(options.padding()),
                    options.dilation());
}

}  // namespace lr::worker
