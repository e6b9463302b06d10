#include "worker/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace lr::worker {
namespace {

const double kSmallestHealthyScale = std::ldexp(1.0, -14);

/// Gradients by device: the kernel takes one device at a time.
std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, std::vector<at::Tensor>> Gradients(
    const Optimizer& optimizer) {
  std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, std::vector<at::Tensor>> by_device;
  for (const OptimizerGroup& group : optimizer.groups()) {
    for (size_t i = 0; i < group.params.size(); ++i) {
      const at::Tensor gradient = group.params[i].grad();
      if (!gradient.defined()) {
        continue;
      }
      TORCH_CHECK(gradient.scalar_type() != at::kHalf,
                  "the gradient of '",
                  i < group.names.size() ? group.names[i] : "?",
                  "' is float16: loss scaling needs float32 trainable parameters");
      by_device[{gradient.device().type(), gradient.device().index()}].push_back(gradient);
    }
  }
  return by_device;
}

}  // namespace

GradScaler::GradScaler(const GradScalerState& state, c10::Device device) : device_(device) {
  Restore(state);
}

at::Tensor GradScaler::Scale(const at::Tensor& loss) const {
  has_scaled_ = true;
  return loss.to(at::kFloat) * scale_.squeeze();
}

void GradScaler::Unscale(Optimizer& optimizer) {
  TORCH_CHECK(has_scaled_,
              "gradients are to be unscaled, and no loss of this update was scaled: backward is "
              "started by accelerator.backward(loss), not by loss.backward()");
  const auto [pass, is_new] = passes_.try_emplace(&optimizer);
  TORCH_CHECK(is_new, "the gradients of this update are unscaled already");
  const at::NoGradGuard no_grad;
  pass->second.found = at::zeros({1}, at::TensorOptions(at::kFloat).device(device_));
  // In float64, as torch has it, and on the device: clipping must not wait for it.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  for (const auto& [device, gradients] : Gradients(optimizer)) {
    const auto options = gradients[0].options().dtype(at::kFloat);
    at::Tensor found = at::zeros({1}, options);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse.to(found.device()));
    pass->second.found += found.to(device_);
  }
}

bool GradScaler::Step(Optimizer& optimizer, const SumOverRanks& sum) {
  if (!passes_.contains(&optimizer)) {
    Unscale(optimizer);
  }
  Pass& pass = passes_.at(&optimizer);
  TORCH_CHECK(!pass.is_stepped, "a second step of one update");
  pass.is_stepped = true;
  sum(pass.found);
  pass.overflowed = pass.found.item<float>() != 0.0F;
  if (!pass.overflowed) {
    optimizer.Step();
  }
  return !pass.overflowed;
}

bool GradScaler::IsDue() const {
  return !passes_.empty() &&
         std::ranges::all_of(passes_, [](const auto& one) { return one.second.is_stepped; });
}

void GradScaler::Update() {
  has_scaled_ = false;
  at::Tensor found = at::zeros({1}, scale_.options());
  bool skipped = false;
  for (const auto& [optimizer, pass] : passes_) {
    TORCH_CHECK(pass.is_stepped, "an update without the step of an optimizer");
    found += pass.found;
    skipped = skipped || pass.overflowed;
  }
  TORCH_CHECK(!passes_.empty(), "an update without a step");
  passes_.clear();
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_,
                         tracker_,
                         found,
                         settings_.growth_factor,
                         settings_.backoff_factor,
                         settings_.growth_interval);
  skipped_ += skipped ? 1 : 0;
  skips_in_a_row_ = skipped ? skips_in_a_row_ + 1 : 0;
}

GradScalerState GradScaler::state() const {
  GradScalerState state = settings_;
  state.scale = scale();
  state.growth_tracker = tracker_.item<int64_t>();
  return state;
}

double GradScaler::scale() const {
  return scale_.item<double>();
}

void GradScaler::Restore(const GradScalerState& state) {
  settings_ = state;
  const at::TensorOptions options = at::TensorOptions().device(device_);
  scale_ = at::full({1}, state.scale, options.dtype(at::kFloat));
  tracker_ = at::full({1}, state.growth_tracker, options.dtype(at::kInt));
}

Status GradScaler::Health() const {
  if (skips_in_a_row_ == 0 || scale() >= kSmallestHealthyScale) {
    return {};
  }
  return FailedPrecondition(
      "the gradients overflowed {} times in a row and the loss scale fell to {}: training "
      "diverges; "
      "lower the learning rate or use --accelerator.mixed_precision=bf16",
      skips_in_a_row_,
      scale());
}

}  // namespace lr::worker
