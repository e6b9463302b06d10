#pragma once
/// Processor pipelines: the steps between loader and policy (preprocessor) and between policy and
/// robot (postprocessor), and their form in checkpoints (dataset_and_training_loop.md G,
/// checkpoints.md 3.6).
///
/// Built fresh from a policy's features and the dataset's statistics, or loaded from a folder and
/// then overridden. Applied by the step thread. Writing files is the checkpoint's work: Serialize()
/// says what is in them.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "worker/data/batch.h"
#include "worker/processors/normalizer.h"

namespace lr::worker {

using RenameMap = std::map<std::string, std::string>;

/// One step: a registry name, a configuration, maybe tensors, and what it does to a batch.
class ProcessorStep {
 public:
  virtual ~ProcessorStep() = default;

  virtual std::string registry_name() const = 0;
  virtual nlohmann::ordered_json Config() const = 0;

  /// Tensors of the state file, `<feature>.<statistic>`; empty: no file.
  virtual TensorMap State() const { return {}; }

  virtual Status Apply(Batch& batch) = 0;
};

/// The files of one pipeline as a checkpoint stores them.
struct PipelineFiles {
  std::string json_name;  ///< policy_preprocessor.json
  std::string json;       ///< indent 2, ASCII only
  std::vector<std::pair<std::string, TensorMap>> states;
};

/// What replaces parts of a loaded pipeline (G.4); unset parts stay as loaded. Setting a part whose
/// step the pipeline does not have is an error.
struct PipelineOverrides {
  std::optional<std::string> device;
  std::optional<RenameMap> rename_map;
  std::optional<FeatureMap> features;
  std::optional<NormalizationMap> norm_map;
  std::optional<Statistics> stats;
};

class Pipeline {
 public:
  Pipeline(std::string name, std::vector<std::unique_ptr<ProcessorStep>> steps);

  /// Runs the steps; afterwards the batch holds only keys that belong to a transition
  /// (observations, action, next.*, padding masks, index columns, task). Errors name the step.
  Status Apply(Batch& batch) const;

  PipelineFiles Serialize() const;

  const std::string& name() const { return name_; }

  const std::vector<std::unique_ptr<ProcessorStep>>& steps() const { return steps_; }

 private:
  std::string name_;
  std::vector<std::unique_ptr<ProcessorStep>> steps_;
};

inline constexpr char kPreprocessorName[] = "policy_preprocessor";
inline constexpr char kPostprocessorName[] = "policy_postprocessor";

struct ProcessorInputs {
  FeatureMap input_features = {};
  FeatureMap output_features = {};
  NormalizationMap norm_map = {};
  Statistics stats = {};  ///< under the policy's names (RenameStats)
  std::string device = {};
  RenameMap rename_map = {};
};

/// rename, to_batch, device, normalise; features are inputs followed by outputs.
Pipeline MakePreprocessor(const ProcessorInputs& inputs);

/// unnormalise (outputs only), device "cpu".
Pipeline MakePostprocessor(const ProcessorInputs& inputs);

/// Reads `<folder>/<name>.json` and its state files. NotFound when the JSON is not there; unknown
/// steps, missing state files and paths that leave the folder are errors.
Result<Pipeline> LoadPipeline(const std::filesystem::path& folder,
                              const std::string& name,
                              const PipelineOverrides& overrides = {});

/// Overrides of the two pipelines (G.4): `keep_stats` when resuming, else the dataset's statistics
/// win.
PipelineOverrides PreprocessorOverrides(const ProcessorInputs& inputs, bool keep_stats);
PipelineOverrides PostprocessorOverrides(const ProcessorInputs& inputs, bool keep_stats);

/// What the loop does to a batch on its device before the preprocessor: uint8 cameras to float32 in
/// 0…1, keys renamed.
void PrepareBatch(Batch& batch, const RenameMap& rename_map);

}  // namespace lr::worker
