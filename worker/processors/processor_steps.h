#pragma once
/// The steps that pipelines consist of, under the reference's registry names
/// (dataset_and_training_loop.md G.1), and their making from JSON. Used by pipeline.cc.

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/io/json.h"
#include "worker/processors/normalizer.h"
#include "worker/processors/pipeline.h"

namespace lr::worker {

/// Moves tensors to their new names.
void RenameKeys(Batch& batch, const RenameMap& names);

/// rename_observations_processor
class RenameStep final : public ProcessorStep {
 public:
  explicit RenameStep(RenameMap names) : names_(std::move(names)) {}

  void SetMap(RenameMap names) { names_ = std::move(names); }

  std::string registry_name() const override { return "rename_observations_processor"; }

  Json Config() const override;
  Status Apply(Batch& batch) override;

 private:
  RenameMap names_;
};

/// to_batch_processor: a leading axis for single samples; batches pass unchanged.
class ToBatchStep final : public ProcessorStep {
 public:
  std::string registry_name() const override { return "to_batch_processor"; }

  Json Config() const override { return Json::object(); }

  Status Apply(Batch& batch) override;
};

/// device_processor
class DeviceStep final : public ProcessorStep {
 public:
  DeviceStep(std::string device, Json float_dtype)
      : device_(std::move(device)), float_dtype_(std::move(float_dtype)) {}

  void SetDevice(std::string device) { device_ = std::move(device); }

  std::string registry_name() const override { return "device_processor"; }

  Json Config() const override;
  Status Apply(Batch& batch) override;

 private:
  std::string device_;
  Json
      float_dtype_;  ///< null, "float16", "bfloat16", "float32", "float64" or another name of these
};

/// normalizer_processor and unnormalizer_processor
class NormalizerStep final : public ProcessorStep {
 public:
  enum class Direction { kForward, kInverse };

  /// Only these observations are normalised; nullopt: all. Actions always are.
  using ObservationKeys = std::optional<std::set<std::string>>;

  NormalizerStep(Direction direction, Normalizer normalizer, ObservationKeys observation_keys = {})
      : direction_(direction),
        normalizer_(std::move(normalizer)),
        observation_keys_(std::move(observation_keys)) {}

  /// Unset parts stay.
  void Replace(const std::optional<FeatureMap>& features,
               const std::optional<NormalizationMap>& modes,
               const std::optional<Statistics>& stats);

  std::string registry_name() const override {
    return direction_ == Direction::kForward ? "normalizer_processor" : "unnormalizer_processor";
  }

  Json Config() const override;
  TensorMap State() const override;
  Status Apply(Batch& batch) override;

 private:
  bool AppliesTo(const std::string& key, FeatureType type) const;

  Direction direction_;
  Normalizer normalizer_;
  ObservationKeys observation_keys_;
};

/// The step of that name; unknown names are refused with the known ones.
Result<std::unique_ptr<ProcessorStep>> MakeStep(const std::string& registry_name,
                                                const Json& config,
                                                const TensorMap& state);

/// The tensors of a step's state file.
Result<TensorMap> ReadStepState(const std::filesystem::path& file);

}  // namespace lr::worker
