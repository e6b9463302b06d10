#include "worker/policies/policy_config.h"

#include <array>

#include "common/config/group.h"

namespace lr::config {

template <>
struct EnumNames<worker::FeatureType> {
  using E = worker::FeatureType;
  static constexpr std::array<std::pair<E, std::string_view>, 6> kNames = {
      {{E::kVisual, "VISUAL"},
       {E::kState, "STATE"},
       {E::kEnv, "ENV"},
       {E::kAction, "ACTION"},
       {E::kReward, "REWARD"},
       {E::kLanguage, "LANGUAGE"}}};
};

template <>
struct EnumNames<worker::NormalizationMode> {
  using E = worker::NormalizationMode;
  static constexpr std::array<std::pair<E, std::string_view>, 5> kNames = {
      {{E::kIdentity, "IDENTITY"},
       {E::kMeanStd, "MEAN_STD"},
       {E::kMinMax, "MIN_MAX"},
       {E::kQuantiles, "QUANTILES"},
       {E::kQuantile10, "QUANTILE10"}}};
};

template <>
struct Convert<worker::FeatureMap> {
  static std::string TypeName() { return "map of features"; }

  static Json ToJson(const worker::FeatureMap& features) {
    Json json = Json::object();
    for (const auto& [key, feature] : features) {
      json[key] = {{"type", Convert<worker::FeatureType>::ToJson(feature.type)},
                   {"shape", feature.shape}};
    }
    return json;
  }

  static Status Read(const Value& value, worker::FeatureMap& out) {
    worker::FeatureMap read;
    if (!value.json.is_null() && !value.json.is_object()) {
      return InvalidArgument("expected a map of features, not {}", ShowJson(value.json));
    }
    for (const auto& [key, item] : value.json.items()) {
      if (!item.is_object() || !item.contains("type") || !item.contains("shape")) {
        return InvalidArgument("'{}' needs type and shape, not {}", key, ShowJson(item));
      }
      worker::PolicyFeature feature;
      const Status type =
          Convert<worker::FeatureType>::Read({item["type"], std::nullopt}, feature.type);
      LR_TRY(type.WithContext("'{}'.type", key));
      const Status shape =
          Convert<std::vector<int64_t>>::Read({item["shape"], std::nullopt}, feature.shape);
      LR_TRY(shape.WithContext("'{}'.shape", key));
      read.emplace_back(key, std::move(feature));
    }
    out = std::move(read);
    return {};
  }
};

}  // namespace lr::config

namespace lr::worker {

namespace {

using config::Convert;
using config::EnumNames;
using NormalizationMap = std::map<std::string, NormalizationMode>;

/// Keys in the order in which the reference declares the feature types, not alphabetically.
Json NormalizationToJson(const NormalizationMap& mapping) {
  Json json = Json::object();
  for (const auto& [type, word] : EnumNames<FeatureType>::kNames) {
    if (const auto it = mapping.find(std::string(word)); it != mapping.end()) {
      json[it->first] = Convert<NormalizationMode>::ToJson(it->second);
    }
  }
  return json;
}

Status ReadNormalization(const config::Value& value, NormalizationMap& mapping) {
  NormalizationMap read;
  LR_TRY(Convert<NormalizationMap>::Read(value, read));
  for (const auto& [word, mode] : read) {
    FeatureType type{};
    LR_TRY(Convert<FeatureType>::Read({Json(word), std::nullopt}, type));
  }
  mapping = std::move(read);
  return {};
}

}  // namespace

void PolicyConfig::DescribeCommon(config::Group& group) {
  group.Add("type", type, "Policy class; decides which further --policy.* flags exist.");
  group.Add("n_obs_steps", n_obs_steps, "Observations per sample.");
  group.Add("input_features", input_features, "Taken from the dataset when empty.");
  group.Add("output_features", output_features, "Always taken from the dataset.");
  group.Add("device", device, "cpu, cuda, mps or xpu; found by itself when not given.");
  group.Add("use_amp", use_amp, "Inference only; training uses --accelerator.mixed_precision.");
  group.Add("use_peft", use_peft, "The pretrained path holds an adapter.");
  group.Add("push_to_hub", push_to_hub, "Publish at the end; needs --policy.repo_id.");
  group.Add("repo_id", repo_id, "Hub repository to publish to.");
  group.Add("private", is_private, "Visibility of a newly created repository.");
  group.Add("tags", tags, "Tags of the model card.");
  group.Add("license", license, "Licence of the model card.");
  group.Add("pretrained_path", pretrained_path, "Set by --policy.path and by a resume.");
  group.Add("pretrained_revision", pretrained_revision, "Revision of the pretrained repository.");
}

void PolicyConfig::DescribeNormalization(config::Group& group) {
  config::Group::Field& field =
      group.Add("normalization_mapping",
                normalization_mapping,
                "Feature type to IDENTITY, MEAN_STD, MIN_MAX, QUANTILES or QUANTILE10.");
  field.read = [this](const config::Value& value) {
    return ReadNormalization(value, normalization_mapping);
  };
  field.write = [this] { return NormalizationToJson(normalization_mapping); };
}

Json ToJson(const PolicyConfig& config) {
  const std::unique_ptr<PolicyConfig> copy = config.Clone();
  config::Group group;
  copy->Describe(group);
  Json json = group.WriteJson();
  for (const auto& [key, value] : config.unknown_keys.items()) {
    json[key] = value;
  }
  return json;
}

}  // namespace lr::worker
