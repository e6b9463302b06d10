#pragma once
/// The feature model shared by dataset, processors and policies (policies.md 0.1). Plain data, no
/// LibTorch.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lr::worker {

enum class FeatureType { kState, kVisual, kEnv, kAction, kReward, kLanguage };

/// One input or output of a policy. `shape` is without batch and time axes; cameras are
/// channel-first.
struct PolicyFeature {
  FeatureType type = FeatureType::kState;
  std::vector<int64_t> shape;

  bool operator==(const PolicyFeature&) const = default;
};

/// Key -> feature, in the order of the configuration file: cameras are processed in this order.
using FeatureMap = std::vector<std::pair<std::string, PolicyFeature>>;

/// The feature of that key, or null.
inline const PolicyFeature* FindFeature(const FeatureMap& features, const std::string& key) {
  for (const auto& [name, feature] : features) {
    if (name == key) {
      return &feature;
    }
  }
  return nullptr;
}

/// One entry of the dataset's meta/info.json `features`; `names` is empty when the file has none or
/// nests them.
struct DatasetFeature {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::string> names;

  bool operator==(const DatasetFeature&) const = default;
};

/// Key -> feature, in the order of meta/info.json.
using DatasetFeatures = std::vector<std::pair<std::string, DatasetFeature>>;

}  // namespace lr::worker
