/// The table of mode names. Pure.
#include "worker/data/normalization_mode.h"

#include <array>
#include <utility>

namespace lr::worker {

namespace {

constexpr std::array<std::pair<NormalizationMode, std::string_view>, 5> kNames = {{
    {NormalizationMode::kIdentity, "IDENTITY"},
    {NormalizationMode::kMeanStd, "MEAN_STD"},
    {NormalizationMode::kMinMax, "MIN_MAX"},
    {NormalizationMode::kQuantiles, "QUANTILES"},
    {NormalizationMode::kQuantile10, "QUANTILE10"},
}};

}  // namespace

std::string_view NormalizationModeName(NormalizationMode mode) {
  for (const auto& [known, name] : kNames) {
    if (known == mode) {
      return name;
    }
  }
  return "UNKNOWN";
}

std::optional<NormalizationMode> ParseNormalizationMode(std::string_view name) {
  for (const auto& [mode, known] : kNames) {
    if (known == name) {
      return mode;
    }
  }
  return std::nullopt;
}

}  // namespace lr::worker
