#pragma once
/// What every policy's configuration holds (policies.md 0.2), without LibTorch. Each policy derives
/// its own struct and declares its fields once in a field table; the registry (policy_registry.h)
/// knows the types by name.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"
#include "worker/data/features.h"
#include "worker/data/normalization_mode.h"
#include "worker/data/windows.h"
#include "worker/optim/optimizer_config.h"

namespace lr::config {
class Group;
}

namespace lr::worker {

struct PolicyConfig {
  virtual ~PolicyConfig() = default;

  std::string type;
  int64_t n_obs_steps = 1;
  FeatureMap input_features;
  FeatureMap output_features;
  std::optional<std::string> device;
  bool use_amp = false;
  bool use_peft = false;
  bool push_to_hub = true;
  std::optional<std::string> repo_id;
  std::optional<bool> is_private;  ///< key `private`
  std::optional<std::vector<std::string>> tags;
  std::optional<std::string> license;
  std::optional<std::string> pretrained_path;
  std::optional<std::string> pretrained_revision;
  /// By feature type word (VISUAL, STATE, …); what is absent is not normalised.
  std::map<std::string, NormalizationMode> normalization_mapping;

  /// Keys of a checkpoint's config.json that we do not know; written back unchanged.
  Json unknown_keys = Json::object();

  virtual std::unique_ptr<PolicyConfig> Clone() const = 0;

  /// Declares every field once, in the order of config.json: flags, file keys, help
  /// (common/config/group.h).
  virtual void Describe(config::Group& group) = 0;

  /// Refuses values that can never work (policies.md A.1); names field, value and limit.
  virtual Status Validate() const = 0;

  /// Frame windows that the dataset must deliver.
  virtual PolicyWindows Windows() const = 0;

  /// Frames at an episode's end that the sampler must not start from.
  virtual int64_t drop_n_last_frames() const { return 0; }

  virtual OptimizerConfig OptimizerPreset() const = 0;

  virtual std::optional<SchedulerConfig> SchedulerPreset() const { return std::nullopt; }

  /// A rate of its own that some parameter group has, by field name; it follows an explicit
  /// `--optimizer.lr` unless it was given itself.
  virtual std::vector<std::pair<std::string, double*>> OwnLearningRates() { return {}; }

 protected:
  /// The fields that every policy has, up to pretrained_revision.
  void DescribeCommon(config::Group& group);

  /// The field normalization_mapping, where the policy's order of keys has it.
  void DescribeNormalization(config::Group& group);
};

/// The content of config.json.
Json ToJson(const PolicyConfig& config);

}  // namespace lr::worker
