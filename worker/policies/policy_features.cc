#include "worker/policies/policy_features.h"

#include <algorithm>
#include <set>

#include "common/base/text.h"
#include "common/io/json.h"

namespace lr::worker {

namespace {

/// Dataset cameras are stored height, width, channels; policies take channels first.
Result<std::vector<int64_t>> CameraShape(const std::string& key,
                                         const DatasetFeature& feature,
                                         std::vector<std::string>& lines) {
  const std::vector<int64_t>& shape = feature.shape;
  if (shape.size() != 3) {
    return InvalidArgument("camera {}: shape [{}] has {} dimensions instead of 3",
                           key,
                           fmt::join(shape, ", "),
                           shape.size());
  }
  bool channels_last = false;
  if (feature.names.size() == 3) {
    channels_last = feature.names[2] == "channel" || feature.names[2] == "channels";
  } else {
    const auto few = [](int64_t size) { return size == 1 || size == 3 || size == 4; };
    channels_last = few(shape[2]) && !few(shape[0]);
    lines.push_back(fmt::format("{}: no axis names in info.json; shape [{}] is taken as {}",
                                key,
                                fmt::join(shape, ", "),
                                channels_last ? "height, width, channels" : "channels first"));
  }
  return channels_last ? std::vector<int64_t>{shape[2], shape[0], shape[1]} : shape;
}

Result<FeatureMap> PolicyFeaturesOf(const DatasetFeatures& dataset,
                                    const std::map<std::string, std::string>& rename_map,
                                    std::vector<std::string>& lines) {
  FeatureMap features;
  for (const auto& [stored, feature] : dataset) {
    const auto renamed = rename_map.find(stored);
    const std::string key = renamed == rename_map.end() ? stored : renamed->second;
    if (feature.dtype == "image" || feature.dtype == "video") {
      LR_ASSIGN(std::vector<int64_t> shape, CameraShape(key, feature, lines));
      features.push_back({key, {FeatureType::kVisual, std::move(shape)}});
    } else if (key == "observation.environment_state") {
      features.push_back({key, {FeatureType::kEnv, feature.shape}});
    } else if (key.starts_with("observation")) {
      features.push_back({key, {FeatureType::kState, feature.shape}});
    } else if (key.starts_with("action")) {
      features.push_back({key, {FeatureType::kAction, feature.shape}});
    }
  }
  return features;
}

std::vector<std::string> Cameras(const FeatureMap& features) {
  std::vector<std::string> names;
  for (const auto& [key, feature] : features) {
    if (feature.type == FeatureType::kVisual) {
      names.push_back(key);
    }
  }
  return names;
}

bool Within(const std::vector<std::string>& inner, const std::vector<std::string>& outer) {
  const std::set<std::string> all(outer.begin(), outer.end());
  return std::all_of(
      inner.begin(), inner.end(), [&](const std::string& name) { return all.count(name) > 0; });
}

/// Two columns of what is expected and what is there, and a rename map to paste.
std::string CameraMismatch(const std::vector<std::string>& policy,
                           const std::vector<std::string>& dataset) {
  std::string text = "the policy's cameras are not the dataset's:\n";
  text += fmt::format("  {:<40} {}\n", "policy expects", "dataset offers");
  for (size_t row = 0; row < std::max(policy.size(), dataset.size()); ++row) {
    text += fmt::format("  {:<40} {}\n",
                        row < policy.size() ? policy[row] : "-",
                        row < dataset.size() ? dataset[row] : "-");
  }
  // What both sides have stays; the rest is paired in order.
  std::vector<std::string> missing;
  std::vector<std::string> extra;
  const auto lacks = [](const std::vector<std::string>& names) {
    return [&names](const std::string& name) { return !Within({name}, names); };
  };
  std::copy_if(policy.begin(), policy.end(), std::back_inserter(missing), lacks(dataset));
  std::copy_if(dataset.begin(), dataset.end(), std::back_inserter(extra), lacks(policy));
  Json names = Json::object();
  for (size_t row = 0; row < std::min(missing.size(), extra.size()); ++row) {
    names[extra[row]] = missing[row];
  }
  return text + "to map the dataset's names to the policy's: --rename_map='" + names.dump() + "'";
}

Status CheckWidths(const FeatureMap& policy, const FeatureMap& dataset) {
  for (const auto& [key, feature] : policy) {
    const PolicyFeature* offered = FindFeature(dataset, key);
    if (offered == nullptr || feature.type == FeatureType::kVisual) {
      continue;
    }
    if (offered->shape != feature.shape) {
      return InvalidArgument("{}: the policy was made for shape [{}], the dataset has [{}]",
                             key,
                             fmt::join(feature.shape, ", "),
                             fmt::join(offered->shape, ", "));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> FillFeaturesFromDataset(
    PolicyConfig& config,
    const DatasetFeatures& dataset,
    const std::map<std::string, std::string>& rename_map) {
  for (const auto& [stored, renamed] : rename_map) {
    const bool known = std::any_of(
        dataset.begin(), dataset.end(), [&](const auto& item) { return item.first == stored; });
    if (!known) {
      return InvalidArgument("--rename_map: the dataset has no feature '{}'", stored);
    }
  }
  std::vector<std::string> lines;
  LR_ASSIGN(const FeatureMap offered, PolicyFeaturesOf(dataset, rename_map, lines));
  FeatureMap outputs;
  FeatureMap inputs;
  for (const auto& item : offered) {
    (item.second.type == FeatureType::kAction ? outputs : inputs).push_back(item);
  }
  const FeatureMap saved_outputs = config.output_features;
  config.output_features = outputs;
  if (config.input_features.empty()) {
    config.input_features = inputs;
    return lines;
  }
  const std::vector<std::string> expected = Cameras(config.input_features);
  const std::vector<std::string> present = Cameras(inputs);
  if (rename_map.empty() && !Within(expected, present) && !Within(present, expected)) {
    return InvalidArgument("{}", CameraMismatch(expected, present));
  }
  LR_TRY(CheckWidths(config.input_features, inputs));
  LR_TRY(CheckWidths(saved_outputs, outputs));
  return lines;
}

}  // namespace lr::worker
