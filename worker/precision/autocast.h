#pragma once
/// Autocast from C++, which LibTorch offers as thread-local switches only
/// (sharded_training.md 3.3). Wrap a forward in it; backward runs outside. Step thread.

#include <optional>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace lr::worker {

/// In force while it lives; restores what was before. Casts of weights are remembered until the
/// outermost one ends (never across it, where an optimizer step may lie), unless `caches` is off:
/// copies of gathered weights would defeat freeing them.
class AutocastGuard {
 public:
  /// `dtype` nullopt: nothing changes.
  AutocastGuard(c10::DeviceType device, std::optional<c10::ScalarType> dtype, bool caches);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool active_;
  bool was_enabled_ = false;
  bool was_caching_ = false;
  c10::ScalarType previous_dtype_ = c10::ScalarType::Undefined;
};

}  // namespace lr::worker
