// The global gradient norm and clipping by it, on foreach kernels (sharded_training.md 5). Thread:
// step thread.
#include <cmath>

#include <ATen/ATen.h>

#include "worker/optim/algorithms.h"

namespace lr::worker {

namespace {

at::Tensor TotalNorm(const internal::ByKernel<std::vector<at::Tensor>>& grads, double norm_type) {
  const c10::Device device = grads.begin()->first.first;
  std::vector<at::Tensor> norms;
  for (const auto& [key, list] : grads) {
    // Half-precision gradients are summed, and their norms kept, in float32.
    const bool is_half = key.second == at::kHalf || key.second == at::kBFloat16;
    const auto dtype = is_half ? std::optional(at::kFloat) : std::nullopt;
    for (const at::Tensor& norm : at::_foreach_norm(list, norm_type, dtype)) {
      norms.push_back(norm.to(device, at::kFloat));
    }
  }
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

/// Of what the ranks hold together, from what each has.
at::Tensor OverRanks(const at::Tensor& norm, const NormOverRanks& ranks, double norm_type) {
  at::Tensor value = norm.to(at::kDouble);
  if (std::isinf(norm_type)) {
    ranks.max(value);
    return value.to(at::kFloat);
  }
  value = norm_type == 2.0 ? value.square() : value.pow(norm_type);
  ranks.sum(value);
  return (norm_type == 2.0 ? value.sqrt() : value.pow(1.0 / norm_type)).to(at::kFloat);
}

/// Multiplies by min(1, max_norm / (norm + 1e-6)). On the host, where reading the norm costs
/// nothing, the pass over all gradients is left out when the factor is exactly 1.
void Scale(const internal::ByKernel<std::vector<at::Tensor>>& grads,
           const at::Tensor& norm,
           double max_norm) {
  const at::Tensor factor = (max_norm / (norm + 1e-6)).clamp_max(1.0);
  if (factor.is_cpu() && factor.item<float>() == 1.0F) {
    return;
  }
  for (const auto& [key, list] : grads) {
    at::_foreach_mul_(list, factor.to(key.first));
  }
}

}  // namespace

at::Tensor ClipGradNorm(const std::vector<at::Tensor>& params,
                        double max_norm,
                        const NormOverRanks* ranks,
                        double norm_type) {
  TORCH_CHECK(norm_type > 0.0, "norm_type ", norm_type, ": must be above 0, or infinity");
  const at::NoGradGuard no_grad;
  internal::ByKernel<std::vector<at::Tensor>> grads;
  internal::ByKernel<std::vector<at::Tensor>> counted;
  for (const at::Tensor& param : params) {
    // An empty shard has a gradient, too, and nothing to add.
    if (!param.grad().defined() || param.grad().numel() == 0) {
      continue;
    }
    grads[internal::KeyOf(param.grad())].push_back(param.grad());
    if (ranks == nullptr || ranks->counted_elsewhere.count(param.unsafeGetTensorImpl()) == 0) {
      counted[internal::KeyOf(param.grad())].push_back(param.grad());
    }
  }
  at::Tensor norm = counted.empty() ? at::zeros({}, at::kFloat) : TotalNorm(counted, norm_type);
  if (ranks != nullptr) {
    norm = OverRanks(norm, *ranks, norm_type);
  }
  if (max_norm > 0.0 && !grads.empty()) {
    Scale(grads, norm, max_norm);
  }
  return norm;
}

}  // namespace lr::worker
