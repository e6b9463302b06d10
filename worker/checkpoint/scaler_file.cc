#include "worker/checkpoint/scaler_file.h"

#include <cmath>

namespace lr::worker {

Json ScalerStateJson(const GradScalerState& state) {
  return {{"scale", state.scale},
          {"growth_factor", state.growth_factor},
          {"backoff_factor", state.backoff_factor},
          {"growth_interval", state.growth_interval},
          {"_growth_tracker", state.growth_tracker}};
}

namespace {

Result<double> Number(const Json& json, const char* key) {
  if (!json.contains(key) || !json[key].is_number() || !std::isfinite(json[key].get<double>())) {
    return InvalidArgument("`{}` is missing or not a finite number", key);
  }
  return json[key].get<double>();
}

Result<int64_t> Count(const Json& json, const char* key) {
  if (!json.contains(key) || !json[key].is_number_integer() || json[key].get<int64_t>() < 0) {
    return InvalidArgument("`{}` is missing or not a count", key);
  }
  return json[key].get<int64_t>();
}

Result<GradScalerState> Parse(const Json& json) {
  if (!json.is_object()) {
    return InvalidArgument("not an object");
  }
  GradScalerState state;
  LR_ASSIGN(state.scale, Number(json, "scale"));
  LR_ASSIGN(state.growth_factor, Number(json, "growth_factor"));
  LR_ASSIGN(state.backoff_factor, Number(json, "backoff_factor"));
  LR_ASSIGN(state.growth_interval, Count(json, "growth_interval"));
  LR_ASSIGN(state.growth_tracker, Count(json, "_growth_tracker"));
  if (state.scale < 0 || state.growth_factor <= 1 || state.backoff_factor <= 0 ||
      state.backoff_factor >= 1 || state.growth_interval < 1) {
    return InvalidArgument("a scale of {} with factors {} and {} and interval {} is none",
                           state.scale,
                           state.growth_factor,
                           state.backoff_factor,
                           state.growth_interval);
  }
  return state;
}

}  // namespace

Result<GradScalerState> ReadScalerState(const std::filesystem::path& file) {
  LR_ASSIGN(const Json json, ReadJsonFile(file.string()));
  return Parse(json).WithContext("'{}'", file.string());
}

}  // namespace lr::worker
