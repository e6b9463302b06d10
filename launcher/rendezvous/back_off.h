#pragma once
/// (pure) Waits between attempts: doubling from 0.1 s to 5 s with full jitter (3.7), so that nodes
/// started by one command do not knock in step.

#include <algorithm>
#include <chrono>

namespace lr::launcher {

class BackOff {
 public:
  /// `uniform` in [0, 1).
  std::chrono::milliseconds Next(double uniform) {
    const std::chrono::milliseconds limit = next_;
    next_ = std::min(next_ * 2, kMost);
    return std::chrono::milliseconds(
        static_cast<int64_t>(uniform * static_cast<double>(limit.count())));
  }

  void Reset() { next_ = kFirst; }

 private:
  static constexpr std::chrono::milliseconds kFirst{100};
  static constexpr std::chrono::milliseconds kMost{5'000};
  std::chrono::milliseconds next_ = kFirst;
};

}  // namespace lr::launcher
