#pragma once
/// The state of dynamic loss scaling (grad_scaler.h). Plain data.

#include <cstdint>

namespace lr::worker {

/// The numbers of scaler_state.json.
struct GradScalerState {
  double scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  int64_t growth_tracker = 0;  ///< updates since the last change of scale

  bool operator==(const GradScalerState&) const = default;
};

}  // namespace lr::worker
