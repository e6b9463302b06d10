#include "worker/processors/normalizer.h"

#include <ATen/ops/where.h>

#include "common/base/text.h"

namespace lr::worker {

namespace {

/// The two statistics that a mode works with.
std::pair<const char*, const char*> StatisticNames(NormalizationMode mode) {
  switch (mode) {
    case NormalizationMode::kMeanStd:
      return {"mean", "std"};
    case NormalizationMode::kMinMax:
      return {"min", "max"};
    case NormalizationMode::kQuantiles:
      return {"q01", "q99"};
    case NormalizationMode::kQuantile10:
      return {"q10", "q90"};
    case NormalizationMode::kIdentity:
      break;
  }
  return {"", ""};
}

NormalizationMode ModeOf(FeatureType type, const NormalizationMap& modes) {
  const auto it = modes.find(FeatureTypeWord(type));
  return it == modes.end() ? NormalizationMode::kIdentity : it->second;
}

}  // namespace

std::string FeatureTypeWord(FeatureType type) {
  constexpr const char* kWords[] = {"STATE", "VISUAL", "ENV", "ACTION", "REWARD", "LANGUAGE"};
  return kWords[static_cast<int>(type)];
}

Status CheckNormalization(const FeatureMap& features,
                          const NormalizationMap& modes,
                          const Statistics& stats) {
  std::vector<std::string> missing;
  for (const auto& [key, feature] : features) {
    const NormalizationMode mode = ModeOf(feature.type, modes);
    if (mode == NormalizationMode::kIdentity) {
      continue;
    }
    const auto [first, second] = StatisticNames(mode);
    const auto group = stats.find(key);
    const bool complete =
        group != stats.end() && group->second.count(first) > 0 && group->second.count(second) > 0;
    if (complete) {
      continue;
    }
    std::vector<std::string> present;
    if (group != stats.end()) {
      for (const auto& [name, value] : group->second) {
        present.push_back(name);
      }
    }
    missing.push_back(fmt::format("{} ({} needs {} and {}; there: {})",
                                  key,
                                  NormalizationModeName(mode),
                                  first,
                                  second,
                                  present.empty() ? "nothing" : Join(present, ", ")));
  }
  if (missing.empty()) {
    return {};
  }
  return FailedPrecondition(
      "statistics are missing in meta/stats.json for: {}. Compute them, or set "
      "--policy.normalization_mapping to IDENTITY for these types",
      Join(missing, "; "));
}

std::vector<std::string> ConstantDimensions(const FeatureMap& features,
                                            const NormalizationMap& modes,
                                            const Statistics& stats) {
  std::vector<std::string> warnings;
  for (const auto& [key, feature] : features) {
    const NormalizationMode mode = ModeOf(feature.type, modes);
    const auto group = stats.find(key);
    if (mode == NormalizationMode::kIdentity || group == stats.end()) {
      continue;
    }
    const auto [first, second] = StatisticNames(mode);
    const auto low = group->second.find(first);
    const auto high = group->second.find(second);
    if (low == group->second.end() || high == group->second.end()) {
      continue;
    }
    const at::Tensor range =
        (mode == NormalizationMode::kMeanStd ? high->second : high->second - low->second).flatten();
    std::vector<std::string> constant;
    for (int64_t i = 0; i < range.numel(); ++i) {
      if (range[i].item<double>() == 0.0) {
        constant.push_back(std::to_string(i));
      }
    }
    if (!constant.empty()) {
      warnings.push_back(fmt::format(
          "{}: dimensions {} never change in the dataset; normalising blows up any noise on them",
          key,
          Join(constant, ", ")));
    }
  }
  return warnings;
}

Normalizer::Normalizer(FeatureMap features, NormalizationMap modes, Statistics stats, double eps)
    : features_(std::move(features)),
      modes_(std::move(modes)),
      stats_(std::move(stats)),
      eps_(eps) {
  // One-dimensional statistics of a camera are per channel: they stand against [.., C, H, W].
  for (const auto& [key, feature] : features_) {
    const auto group = stats_.find(key);
    if (feature.type != FeatureType::kVisual || group == stats_.end()) {
      continue;
    }
    for (auto& [name, tensor] : group->second) {
      if (tensor.dim() == 1) {
        tensor = tensor.reshape({-1, 1, 1});
      }
    }
  }
}

Result<Normalizer::Pair> Normalizer::Statistic(const std::string& key,
                                               NormalizationMode mode,
                                               const at::Tensor& like) const {
  const std::string slot =
      fmt::format("{} {} {}", key, static_cast<int>(like.scalar_type()), like.device().str());
  if (const auto it = prepared_.find(slot); it != prepared_.end()) {
    return it->second;
  }
  const auto group = stats_.find(key);
  if (group == stats_.end()) {
    return Pair();  // no statistics at all: unchanged
  }
  const auto [first, second] = StatisticNames(mode);
  const auto a = group->second.find(first);
  const auto b = group->second.find(second);
  if (a == group->second.end() || b == group->second.end()) {
    return FailedPrecondition("{}: {} needs the statistics {} and {}, and one is missing",
                              key,
                              NormalizationModeName(mode),
                              first,
                              second);
  }
  const auto fit = [&](const at::Tensor& stat) {
    return stat.to(like.device(), like.scalar_type());
  };
  Pair pair{fit(a->second), fit(b->second)};
  if (mode == NormalizationMode::kMeanStd) {
    prepared_[slot] = pair;
    return pair;
  }
  // min and range, the range never zero
  pair.second = pair.second - pair.first;
  pair.second = at::where(pair.second == 0, at::full_like(pair.second, eps_), pair.second);
  prepared_[slot] = pair;
  return pair;
}

Result<at::Tensor> Normalizer::Normalize(const std::string& key, const at::Tensor& value) const {
  const PolicyFeature* feature = FindFeature(features_, key);
  const NormalizationMode mode =
      feature == nullptr ? NormalizationMode::kIdentity : ModeOf(feature->type, modes_);
  if (mode == NormalizationMode::kIdentity) {
    return value;
  }
  LR_ASSIGN(const Pair pair, Statistic(key, mode, value));
  if (!pair.first.defined()) {
    return value;
  }
  if (mode == NormalizationMode::kMeanStd) {
    return (value - pair.first).div_(pair.second + eps_);
  }
  return (value - pair.first).mul_(2.0).div_(pair.second).sub_(1.0);
}

Result<at::Tensor> Normalizer::Unnormalize(const std::string& key, const at::Tensor& value) const {
  const PolicyFeature* feature = FindFeature(features_, key);
  const NormalizationMode mode =
      feature == nullptr ? NormalizationMode::kIdentity : ModeOf(feature->type, modes_);
  if (mode == NormalizationMode::kIdentity) {
    return value;
  }
  LR_ASSIGN(const Pair pair, Statistic(key, mode, value));
  if (!pair.first.defined()) {
    return value;
  }
  if (mode == NormalizationMode::kMeanStd) {
    return (value * pair.second).add_(pair.first);
  }
  return (value + 1.0).div_(2.0).mul_(pair.second).add_(pair.first);
}

}  // namespace lr::worker
