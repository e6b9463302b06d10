#pragma once
/// The algorithms behind Optimizer::Create. Included by optimizer.cc and the algorithms only.
///
/// One call of an ATen fused kernel per group, device and dtype: one pass over parameter, gradient
/// and state instead of the dozen of the unfused form. Semantics of torch.optim with fused=True.

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/optim/optimizer.h"

namespace lr::worker::internal {

/// adam, adamw and xvla-adamw; the latter two decouple weight decay from the gradient.
class Adam final : public Optimizer {
 public:
  Adam(std::vector<OptimizerGroup> groups, bool decoupled)
      : Optimizer(std::move(groups)), decoupled_(decoupled) {}

  void Step() override;

 private:
  void StepGroup(const OptimizerGroup& group, int64_t first_id);

  const bool decoupled_;
};

/// SGD with momentum, dampening and Nesterov's variant. Without momentum there is no state.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(std::vector<OptimizerGroup> groups) : Optimizer(std::move(groups)) {}

  void Step() override;

 private:
  void StepGroup(const OptimizerGroup& group, int64_t first_id);
};

/// What one kernel call may contain: tensors of one device and dtype.
using KernelKey = std::pair<c10::Device, c10::ScalarType>;

struct KernelKeyLess {
  bool operator()(const KernelKey& a, const KernelKey& b) const {
    const auto order = [](const KernelKey& key) {
      return std::tuple(static_cast<int>(key.first.type()), key.first.index(), key.second);
    };
    return order(a) < order(b);
  }
};

template <typename Lists>
using ByKernel = std::map<KernelKey, Lists, KernelKeyLess>;

inline KernelKey KeyOf(const at::Tensor& param) {
  return {param.device(), param.scalar_type()};
}

/// The gradient in the memory layout of its parameter, which the kernels walk side by side.
inline at::Tensor GradientLike(const at::Tensor& param) {
  const at::Tensor& grad = param.grad();
  return grad.strides() == param.strides() ? grad : at::empty_like(param).copy_(grad);
}

}  // namespace lr::worker::internal
