#pragma once
/// (pure) Depth cameras' videos hold 12-bit codes, spaced by the logarithm of the distance; this is
/// the way back to distances (dataset_and_training_loop.md E.7).

#include <vector>

#include "worker/data/dataset_info.h"

namespace lr::worker {

inline constexpr int kDepthCodes = 4096;

/// Distance by code: metres, or whole millimetres, between the camera's smallest and largest depth.
std::vector<float> DepthByCode(const CameraInfo& camera, bool in_millimetres);

}  // namespace lr::worker
