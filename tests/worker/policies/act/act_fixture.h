#pragma once
/// What the tests of ACT share: the recorded configuration and batch, and comparison with recorded
/// checksums.

#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "common/io/json.h"
#include "worker/checkpoint/model_file.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/nn/file_digest.h"
#include "worker/policies/act/act_policy.h"
#include "worker/policies/policy_types.h"

namespace lr::worker::testing {

/// A file of tests/data/act_small.
inline std::string ActFile(const std::string& name) {
  return std::string(LR_TEST_DATA) + "/act_small/" + name;
}

inline Json ReadActJson(const std::string& name) {
  std::ifstream file(ActFile(name));
  return Json::parse(file);
}

inline SafetensorsFile OpenActTensors(const std::string& name) {
  return std::move(SafetensorsFile::Open(ActFile(name))).value();
}

/// The configuration with which the reference values were recorded, with `overrides` on top.
inline ActConfig SmallAct(const Json& overrides = Json::object()) {
  Json json = ReadActJson("config.json");
  if (overrides.is_object()) {  // the recorder writes "no overrides" as an empty list
    json.update(overrides);
  }
  const auto config = std::move(PolicyConfigFromJson(json)).value();
  return dynamic_cast<const ActConfig&>(*config);
}

/// The features of one camera, state and action, as the specification's vectors have them.
inline ActConfig DefaultAct(int64_t state, int64_t action, std::vector<int64_t> frame) {
  ActConfig config;
  config.pretrained_backbone_weights.reset();
  config.input_features = {
      {"observation.images.top", {FeatureType::kVisual, std::move(frame)}},
      {"observation.state", {FeatureType::kState, {state}}},
  };
  config.output_features = {{"action", {FeatureType::kAction, {action}}}};
  return config;
}

/// A new policy from the trainer's seed.
inline std::shared_ptr<ACTPolicy> MakeAct(const ActConfig& config) {
  torch::manual_seed(1000);
  return std::move(ACTPolicy::Create(config)).value();
}

/// The first training batch of seed 1000, as it leaves the preprocessor.
inline Batch FirstBatch() {
  const SafetensorsFile file = OpenActTensors("batch.safetensors");
  constexpr std::string_view kPrefix = "batch/";
  Batch batch;
  for (const std::string& name : file.names()) {
    if (name.starts_with(kPrefix)) {
      batch.tensors[name.substr(kPrefix.size())] = std::move(file.Load(name)).value();
    }
  }
  return batch;
}

inline double Sum(const at::Tensor& tensor) {
  return tensor.detach().to(at::kDouble).sum().item<double>();
}

inline double AbsSum(const at::Tensor& tensor) {
  return tensor.detach().to(at::kDouble).abs().sum().item<double>();
}

/// 16 digits over the raw elements, in row-major order whatever the layout in memory.
inline std::string Digest(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  return Sha256(flat.const_data_ptr(), flat.nbytes()).substr(0, 16);
}

/// Shape exactly; sums relative to the sum of absolute values, give or take `slack`; the first
/// elements.
inline void ExpectChecksum(const at::Tensor& tensor,
                           const Json& expected,
                           double tolerance,
                           const std::string& name,
                           double slack = 0.0) {
  EXPECT_EQ(tensor.sizes().vec(), expected.at("shape").get<std::vector<int64_t>>()) << name;
  const double abs_sum = expected.at("abs_sum");
  EXPECT_NEAR(Sum(tensor), expected.at("sum").get<double>(), abs_sum * tolerance + slack) << name;
  EXPECT_NEAR(AbsSum(tensor), abs_sum, abs_sum * tolerance + slack) << name;
  const std::vector<float> first = expected.at("first4");
  const at::Tensor flat = tensor.detach().contiguous().flatten();
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(flat[static_cast<int64_t>(i)].item<float>(), first[i], tolerance) << name;
  }
}

}  // namespace lr::worker::testing
