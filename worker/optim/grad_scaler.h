#pragma once
/// Dynamic loss scaling for float16 (sharded_training.md 4, torch's GradScaler): the loss is
/// multiplied by `scale`, gradients are divided by it again, an update whose gradients overflowed
/// is skipped on all ranks and the scale goes down; after `growth_interval` updates without one it
/// goes up.
///
/// Order of one update: Scale … backward … Unscale (by clipping, else by Step), Step for each
/// optimizer, Update. Step thread; Step is collective. Misuse throws c10::Error, like tensor code.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/optim/grad_scaler_state.h"
#include "worker/optim/optimizer.h"

namespace lr::worker {

/// Collective sum of a one-element float32 tensor over all ranks of the run, in place, finished on
/// return.
using SumOverRanks = std::function<void(at::Tensor& value)>;

class GradScaler {
 public:
  GradScaler(const GradScalerState& state, c10::Device device);

  /// loss * scale, as float32.
  at::Tensor Scale(const at::Tensor& loss) const;

  /// Divides the optimizer's gradients by the scale and notes whether one is not finite. Once per
  /// update.
  void Unscale(Optimizer& optimizer);

  bool IsUnscaled(const Optimizer& optimizer) const { return passes_.contains(&optimizer); }

  /// Update may be called: some optimizer has stepped, and none is unscaled whose Step is to come.
  bool IsDue() const;

  /// Unscales if that is still to be done, then updates the weights unless any rank's gradients
  /// overflowed; true when they were updated. Waits for the device.
  bool Step(Optimizer& optimizer, const SumOverRanks& sum);

  /// After the Steps of all optimizers: adapts the scale.
  void Update();

  GradScalerState state() const;

  double scale() const;

  void Restore(const GradScalerState& state);

  int64_t skipped_updates() const { return skipped_; }

  /// Ok, or why training is diverging: overflow after overflow until the scale fell below 2^-14.
  Status Health() const;

  /// Updates skipped in a row; 50 of them are worth a warning.
  int64_t skips_in_a_row() const { return skips_in_a_row_; }

 private:
  struct Pass {
    at::Tensor found;  ///< float32 [1]: not 0 when a gradient was not finite
    bool is_stepped = false;
    bool overflowed = false;  ///< on any rank; known with the step
  };

  c10::Device device_;
  at::Tensor scale_;    ///< float32 [1]
  at::Tensor tracker_;  ///< int32 [1]
  GradScalerState settings_;
  std::map<const Optimizer*, Pass> passes_;
  mutable bool has_scaled_ = false;
  int64_t skipped_ = 0;
  int64_t skips_in_a_row_ = 0;
};

}  // namespace lr::worker
