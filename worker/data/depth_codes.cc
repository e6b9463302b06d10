/// The table from depth codes to distances. Pure.
#include "worker/data/depth_codes.h"

#include <algorithm>
#include <cmath>

namespace lr::worker {

std::vector<float> DepthByCode(const CameraInfo& camera, bool in_millimetres) {
  const auto spread = [&](double metres) {
    return camera.depth_log ? std::log(metres + camera.depth_shift) : metres;
  };
  const double first = spread(camera.depth_min);
  const double step = (spread(camera.depth_max) - first) / (kDepthCodes - 1);
  std::vector<float> distances;
  distances.reserve(kDepthCodes);
  for (int code = 0; code < kDepthCodes; ++code) {
    // In single precision and in this order, as the reference rounds.
    const float position =
        static_cast<float>(code) * static_cast<float>(step) + static_cast<float>(first);
    const float metres =
        camera.depth_log ? std::exp(position) - static_cast<float>(camera.depth_shift) : position;
    const float clamped = std::clamp(
        metres, static_cast<float>(camera.depth_min), static_cast<float>(camera.depth_max));
    distances.push_back(
        in_millimetres ? std::clamp(std::nearbyint(clamped * 1000.0F), 0.0F, 65535.0F) : clamped);
  }
  return distances;
}

}  // namespace lr::worker
