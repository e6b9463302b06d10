#pragma once
/// scaler_state.json of float16 runs (checkpoints.md 3.11): the five numbers of torch's GradScaler.
/// Step thread.

#include <filesystem>

#include "common/base/status.h"
#include "common/io/json.h"
#include "worker/optim/grad_scaler.h"

namespace lr::worker {

Json ScalerStateJson(const GradScalerState& state);

/// kNotFound when there is no file; kInvalidArgument for values that no scaler has.
Result<GradScalerState> ReadScalerState(const std::filesystem::path& file);

}  // namespace lr::worker
