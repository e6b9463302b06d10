#include "worker/processors/processor_steps.h"

#include <c10/core/Device.h>

#include "worker/checkpoint/safetensors.h"
#include "worker/comm/exception_text.h"

namespace lr::worker {

namespace {

std::optional<at::ScalarType> DtypeOf(const Json& name) {
  if (name == "float32" || name == "float") {
    return at::kFloat;
  }
  if (name == "float64" || name == "double") {
    return at::kDouble;
  }
  if (name == "float16" || name == "half") {
    return at::kHalf;
  }
  if (name == "bfloat16") {
    return at::kBFloat16;
  }
  return std::nullopt;
}

Json FeaturesToJson(const FeatureMap& features) {
  Json json = Json::object();
  for (const auto& [key, feature] : features) {
    json[key] = {{"type", FeatureTypeWord(feature.type)}, {"shape", feature.shape}};
  }
  return json;
}

Result<FeatureMap> FeaturesFromJson(const Json& json) {
  FeatureMap features;
  for (const auto& [key, value] : json.items()) {
    PolicyFeature feature;
    bool known = false;
    for (const FeatureType type : {FeatureType::kState,
                                   FeatureType::kVisual,
                                   FeatureType::kEnv,
                                   FeatureType::kAction,
                                   FeatureType::kReward,
                                   FeatureType::kLanguage}) {
      if (value.is_object() && value.contains("type") && value["type"] == FeatureTypeWord(type)) {
        feature.type = type;
        known = true;
      }
    }
    if (!known || !value.contains("shape") || !value["shape"].is_array()) {
      return InvalidArgument("features.{}: type or shape is missing or unknown", key);
    }
    for (const Json& size : value["shape"]) {
      if (!size.is_number_integer()) {
        return InvalidArgument("features.{}: shape {}", key, value["shape"].dump());
      }
      feature.shape.push_back(size.get<int64_t>());
    }
    features.emplace_back(key, std::move(feature));
  }
  return features;
}

/// Words in the reference's order of declaration.
Json ModesToJson(const NormalizationMap& modes) {
  Json json = Json::object();
  for (const char* word : {"VISUAL", "STATE", "ENV", "ACTION", "REWARD", "LANGUAGE"}) {
    if (const auto it = modes.find(word); it != modes.end()) {
      json[word] = std::string(NormalizationModeName(it->second));
    }
  }
  return json;
}

Result<NormalizationMap> ModesFromJson(const Json& json) {
  NormalizationMap modes;
  for (const auto& [word, value] : json.items()) {
    const auto mode =
        value.is_string() ? ParseNormalizationMode(value.get<std::string>()) : std::nullopt;
    if (!mode) {
      return InvalidArgument("norm_map.{}: unknown mode {}", word, value.dump());
    }
    modes[word] = *mode;
  }
  return modes;
}

/// `<feature>.<statistic>`, split at the last dot: feature names contain dots.
Result<Statistics> StatisticsFromState(const TensorMap& state) {
  Statistics stats;
  for (const auto& [name, tensor] : state) {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos || dot == 0) {
      return InvalidArgument("the state tensor '{}' is not FEATURE.STATISTIC", name);
    }
    stats[name.substr(0, dot)][name.substr(dot + 1)] = tensor;
  }
  return stats;
}

Result<std::unique_ptr<ProcessorStep>> MakeNormalizer(NormalizerStep::Direction direction,
                                                      const Json& config,
                                                      const TensorMap& state) {
  const auto part = [&](const char* key) {
    return config.contains(key) ? config[key] : Json::object();
  };
  LR_ASSIGN(FeatureMap features, FeaturesFromJson(part("features")));
  LR_ASSIGN(NormalizationMap modes, ModesFromJson(part("norm_map")));
  LR_ASSIGN(Statistics stats, StatisticsFromState(state));
  NormalizerStep::ObservationKeys keys;
  if (const Json list = part("normalize_observation_keys"); list.is_array()) {
    keys.emplace();
    for (const Json& key : list) {
      if (!key.is_string()) {
        return InvalidArgument("normalize_observation_keys: {} is no key", key.dump());
      }
      keys->insert(key.get<std::string>());
    }
  }
  const double eps =
      config.contains("eps") && config["eps"].is_number() ? config["eps"].get<double>() : 1e-8;
  return std::unique_ptr<ProcessorStep>(std::make_unique<NormalizerStep>(
      direction,
      Normalizer(std::move(features), std::move(modes), std::move(stats), eps),
      std::move(keys)));
}

/// Axes of one unbatched sample, by what the key is; -1: not known.
int64_t SingleSampleDim(const std::string& key, const at::Tensor& tensor) {
  if (key == "action" || key == "observation.state" || key == "observation.environment_state") {
    return 1;
  }
  if (key.starts_with("observation.image")) {
    return 3;
  }
  return key == "index" || key == "task_index" || key == "episode_index" ? 0 : -1;
}

}  // namespace

void RenameKeys(Batch& batch, const RenameMap& names) {
  for (const auto& [from, to] : names) {
    if (auto node = batch.tensors.extract(from); !node.empty()) {
      node.key() = to;
      batch.tensors.insert(std::move(node));
    }
    if (auto node = batch.tensors.extract(from + "_is_pad"); !node.empty()) {
      node.key() = to + "_is_pad";
      batch.tensors.insert(std::move(node));
    }
  }
}

Json RenameStep::Config() const {
  Json map = Json::object();
  for (const auto& [from, to] : names_) {
    map[from] = to;
  }
  return {{"rename_map", map}};
}

Status RenameStep::Apply(Batch& batch) {
  RenameKeys(batch, names_);
  return {};
}

Status ToBatchStep::Apply(Batch& batch) {
  for (auto& [key, tensor] : batch.tensors) {
    if (tensor.dim() == SingleSampleDim(key, tensor)) {
      tensor = tensor.unsqueeze(0);
    }
  }
  return {};
}

Json DeviceStep::Config() const {
  return {{"device", device_}, {"float_dtype", float_dtype_}};
}

Status DeviceStep::Apply(Batch& batch) {
  const std::optional<at::ScalarType> dtype = DtypeOf(float_dtype_);
  try {
    const c10::Device device(device_);
    for (auto& [key, tensor] : batch.tensors) {
      const at::ScalarType wanted =
          dtype && tensor.is_floating_point() ? *dtype : tensor.scalar_type();
      tensor = tensor.to(device, wanted, /*non_blocking=*/device.is_cuda());
    }
  } catch (const std::exception& error) {
    return FailedPrecondition("moving a batch to '{}': {}", device_, FirstLine(error));
  }
  return {};
}

void NormalizerStep::Replace(const std::optional<FeatureMap>& features,
                             const std::optional<NormalizationMap>& modes,
                             const std::optional<Statistics>& stats) {
  normalizer_ = Normalizer(features.value_or(normalizer_.features()),
                           modes.value_or(normalizer_.modes()),
                           stats.value_or(normalizer_.stats()),
                           normalizer_.eps());
}

Json NormalizerStep::Config() const {
  Json config = {{"eps", normalizer_.eps()},
                 {"features", FeaturesToJson(normalizer_.features())},
                 {"norm_map", ModesToJson(normalizer_.modes())}};
  if (observation_keys_) {
    config["normalize_observation_keys"] = *observation_keys_;
  }
  return config;
}

bool NormalizerStep::AppliesTo(const std::string& key, FeatureType type) const {
  if (type == FeatureType::kAction || key == "action") {
    return key == "action";
  }
  return !observation_keys_ || observation_keys_->count(key) > 0;
}

TensorMap NormalizerStep::State() const {
  TensorMap state;
  for (const auto& [feature, group] : normalizer_.stats()) {
    for (const auto& [name, tensor] : group) {
      state[feature + "." + name] = tensor;
    }
  }
  return state;
}

Status NormalizerStep::Apply(Batch& batch) {
  for (const auto& [key, feature] : normalizer_.features()) {
    const auto it = batch.tensors.find(key);
    if (it == batch.tensors.end() || !AppliesTo(key, feature.type)) {
      continue;
    }
    Result<at::Tensor> done = direction_ == Direction::kForward
                                  ? normalizer_.Normalize(key, it->second)
                                  : normalizer_.Unnormalize(key, it->second);
    LR_TRY(done);
    it->second = std::move(done).value();
  }
  return {};
}

Result<std::unique_ptr<ProcessorStep>> MakeStep(const std::string& registry_name,
                                                const Json& config,
                                                const TensorMap& state) {
  if (registry_name == "rename_observations_processor") {
    RenameMap names;
    if (config.contains("rename_map") && config["rename_map"].is_object()) {
      for (const auto& [from, to] : config["rename_map"].items()) {
        if (!to.is_string()) {
          return InvalidArgument("rename_map.{}: expected text", from);
        }
        names[from] = to.get<std::string>();
      }
    }
    return std::unique_ptr<ProcessorStep>(std::make_unique<RenameStep>(std::move(names)));
  }
  if (registry_name == "to_batch_processor") {
    return std::unique_ptr<ProcessorStep>(std::make_unique<ToBatchStep>());
  }
  if (registry_name == "device_processor") {
    const std::string device = config.contains("device") && config["device"].is_string()
                                   ? config["device"].get<std::string>()
                                   : "cpu";
    const Json dtype = config.contains("float_dtype") ? config["float_dtype"] : Json(nullptr);
    if (!dtype.is_null() && !DtypeOf(dtype)) {
      return InvalidArgument("float_dtype: {} is no floating type", dtype.dump());
    }
    return std::unique_ptr<ProcessorStep>(std::make_unique<DeviceStep>(device, dtype));
  }
  if (registry_name == "normalizer_processor") {
    return MakeNormalizer(NormalizerStep::Direction::kForward, config, state);
  }
  if (registry_name == "unnormalizer_processor") {
    return MakeNormalizer(NormalizerStep::Direction::kInverse, config, state);
  }
  return InvalidArgument(
      "unknown processor '{}'; known: rename_observations_processor, to_batch_processor, "
      "device_processor, "
      "normalizer_processor, unnormalizer_processor",
      registry_name);
}

Result<TensorMap> ReadStepState(const std::filesystem::path& file) {
  LR_ASSIGN(const SafetensorsFile tensors, SafetensorsFile::Open(file));
  LR_ASSIGN(NamedTensors all, tensors.LoadAll());
  return TensorMap(all.begin(), all.end());
}

}  // namespace lr::worker
