/// The thread-local switches of ATen's autocast.
#include "worker/precision/autocast.h"

#include <ATen/autocast_mode.h>

namespace lr::worker {

AutocastGuard::AutocastGuard(c10::DeviceType device,
                             std::optional<c10::ScalarType> dtype,
                             bool caches)
    : device_(device), active_(dtype.has_value()) {
  if (!active_) {
    return;
  }
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  previous_dtype_ = at::autocast::get_autocast_dtype(device_);
  was_caching_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *dtype);
  at::autocast::set_autocast_cache_enabled(caches);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!active_) {
    return;
  }
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
  at::autocast::set_autocast_cache_enabled(was_caching_);
}

}  // namespace lr::worker
