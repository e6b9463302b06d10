#pragma once
/// torch::nn::Linear as Python has it: LibTorch's own forward multiplies, rounds and then adds the
/// bias, at::linear adds it before rounding, which shows in every bfloat16 result.

#include <ATen/ops/linear.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace lr::worker {

class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  /// [..., in] -> [..., out].
  at::Tensor forward(const at::Tensor& input) { return at::linear(input, weight, bias); }
};

TORCH_MODULE(Linear);

}  // namespace lr::worker
