#pragma once
/// How one type of feature is brought to a common scale (dataset_and_training_loop.md G.3), and its
/// word in files.

#include <optional>
#include <string_view>

namespace lr::worker {

enum class NormalizationMode { kIdentity, kMeanStd, kMinMax, kQuantiles, kQuantile10 };

/// "IDENTITY", "MEAN_STD", "MIN_MAX", "QUANTILES", "QUANTILE10".
std::string_view NormalizationModeName(NormalizationMode mode);

std::optional<NormalizationMode> ParseNormalizationMode(std::string_view name);

}  // namespace lr::worker
