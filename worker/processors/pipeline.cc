#include "worker/processors/pipeline.h"

#include <set>

#include "common/io/json.h"
#include "worker/processors/processor_steps.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostSteps = 100;

/// What a transition consists of; everything else leaves the batch.
bool BelongsToTransition(const std::string& key) {
  static const std::set<std::string> kSideKeys = {"action",
                                                  "next.reward",
                                                  "next.done",
                                                  "next.truncated",
                                                  "index",
                                                  "task_index",
                                                  "timestamp",
                                                  "episode_index"};
  return key.starts_with("observation.") || kSideKeys.count(key) > 0 ||
         key.find("_is_pad") != std::string::npos;
}

/// A file name inside the folder, nothing else.
Status CheckStateFileName(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name.find("..") != std::string::npos) {
    return InvalidArgument("the state file '{}' is no plain file name", name);
  }
  return {};
}

Result<std::unique_ptr<ProcessorStep>> LoadStep(const fs::path& folder,
                                                const Json& json,
                                                size_t number) {
  if (!json.is_object() || !json.contains("registry_name") || !json["registry_name"].is_string()) {
    return InvalidArgument("step {}: registry_name is missing", number);
  }
  const std::string name = json["registry_name"].get<std::string>();
  TensorMap state;
  if (json.contains("state_file")) {
    if (!json["state_file"].is_string()) {
      return InvalidArgument("step {}: state_file is no text", number);
    }
    const std::string file = json["state_file"].get<std::string>();
    LR_TRY(CheckStateFileName(file).WithContext("step {}", number));
    LR_ASSIGN(state, ReadStepState(folder / file).WithContext("step {} ({})", number, name));
  }
  const Json config = json.contains("config") ? json["config"] : Json::object();
  return MakeStep(name, config, state).WithContext("step {}", number);
}

template <typename Step>
Step* FindStep(std::vector<std::unique_ptr<ProcessorStep>>& steps) {
  for (std::unique_ptr<ProcessorStep>& step : steps) {
    if (auto* found = dynamic_cast<Step*>(step.get())) {
      return found;
    }
  }
  return nullptr;
}

Status NoSuchStep(const char* what) {
  return InvalidArgument("the pipeline has no step whose {} could be replaced", what);
}

Status ApplyOverrides(const PipelineOverrides& overrides,
                      std::vector<std::unique_ptr<ProcessorStep>>& steps) {
  if (overrides.device) {
    auto* step = FindStep<DeviceStep>(steps);
    if (step == nullptr) {
      return NoSuchStep("device");
    }
    step->SetDevice(*overrides.device);
  }
  if (overrides.rename_map) {
    auto* step = FindStep<RenameStep>(steps);
    if (step == nullptr) {
      return NoSuchStep("rename map");
    }
    step->SetMap(*overrides.rename_map);
  }
  if (overrides.features || overrides.norm_map || overrides.stats) {
    auto* step = FindStep<NormalizerStep>(steps);
    if (step == nullptr) {
      return NoSuchStep("normalisation");
    }
    step->Replace(overrides.features, overrides.norm_map, overrides.stats);
  }
  return {};
}

}  // namespace

Pipeline::Pipeline(std::string name, std::vector<std::unique_ptr<ProcessorStep>> steps)
    : name_(std::move(name)), steps_(std::move(steps)) {}

Status Pipeline::Apply(Batch& batch) const {
  for (const std::unique_ptr<ProcessorStep>& step : steps_) {
    LR_TRY(step->Apply(batch).WithContext("{}", step->registry_name()));
  }
  std::erase_if(batch.tensors, [](const auto& item) { return !BelongsToTransition(item.first); });
  return {};
}

PipelineFiles Pipeline::Serialize() const {
  PipelineFiles files;
  files.json_name = name_ + ".json";
  Json json = {{"name", name_}, {"steps", Json::array()}};
  for (size_t number = 0; number < steps_.size(); ++number) {
    const ProcessorStep& step = *steps_[number];
    Json entry = {{"registry_name", step.registry_name()}, {"config", step.Config()}};
    TensorMap state = step.State();
    if (!state.empty()) {
      const std::string file =
          fmt::format("{}_step_{}_{}.safetensors", name_, number, step.registry_name());
      entry["state_file"] = file;
      files.states.emplace_back(file, std::move(state));
    }
    json["steps"].push_back(std::move(entry));
  }
  files.json = DumpPythonJson(json, 2, /*ascii_escapes=*/true);
  return files;
}

Pipeline MakePreprocessor(const ProcessorInputs& inputs) {
  FeatureMap features = inputs.input_features;
  features.insert(features.end(), inputs.output_features.begin(), inputs.output_features.end());
  std::vector<std::unique_ptr<ProcessorStep>> steps;
  steps.push_back(std::make_unique<RenameStep>(inputs.rename_map));
  steps.push_back(std::make_unique<ToBatchStep>());
  steps.push_back(std::make_unique<DeviceStep>(inputs.device, nullptr));
  steps.push_back(std::make_unique<NormalizerStep>(
      NormalizerStep::Direction::kForward, Normalizer(features, inputs.norm_map, inputs.stats)));
  return {kPreprocessorName, std::move(steps)};
}

Pipeline MakePostprocessor(const ProcessorInputs& inputs) {
  std::vector<std::unique_ptr<ProcessorStep>> steps;
  steps.push_back(std::make_unique<NormalizerStep>(
      NormalizerStep::Direction::kInverse,
      Normalizer(inputs.output_features, inputs.norm_map, inputs.stats)));
  steps.push_back(std::make_unique<DeviceStep>("cpu", nullptr));
  return {kPostprocessorName, std::move(steps)};
}

Result<Pipeline> LoadPipeline(const fs::path& folder,
                              const std::string& name,
                              const PipelineOverrides& overrides) {
  const fs::path file = folder / (name + ".json");
  LR_ASSIGN(const Json json, ReadJsonFile(file.string()));
  if (!json.is_object() || !json.contains("steps") || !json["steps"].is_array() ||
      json["steps"].size() > kMostSteps) {
    return InvalidArgument("'{}': no list of at most {} steps", file.string(), kMostSteps);
  }
  std::vector<std::unique_ptr<ProcessorStep>> steps;
  for (const Json& one : json["steps"]) {
    LR_ASSIGN(std::unique_ptr<ProcessorStep> step,
              LoadStep(folder, one, steps.size()).WithContext("'{}'", file.string()));
    steps.push_back(std::move(step));
  }
  LR_TRY(ApplyOverrides(overrides, steps).WithContext("'{}'", file.string()));
  return Pipeline(name, std::move(steps));
}

PipelineOverrides PreprocessorOverrides(const ProcessorInputs& inputs, bool keep_stats) {
  PipelineOverrides overrides;
  overrides.device = inputs.device;
  overrides.rename_map = inputs.rename_map;
  overrides.features = inputs.input_features;
  overrides.features->insert(
      overrides.features->end(), inputs.output_features.begin(), inputs.output_features.end());
  overrides.norm_map = inputs.norm_map;
  if (!keep_stats) {
    overrides.stats = inputs.stats;
  }
  return overrides;
}

PipelineOverrides PostprocessorOverrides(const ProcessorInputs& inputs, bool keep_stats) {
  PipelineOverrides overrides;
  overrides.features = inputs.output_features;
  overrides.norm_map = inputs.norm_map;
  if (!keep_stats) {
    overrides.stats = inputs.stats;
  }
  return overrides;
}

void PrepareBatch(Batch& batch, const RenameMap& rename_map) {
  for (auto& [key, tensor] : batch.tensors) {
    if (key.starts_with("observation.") && tensor.scalar_type() == at::kByte && tensor.dim() >= 4) {
      tensor = tensor.to(at::kFloat).div_(255.0);
    }
  }
  RenameKeys(batch, rename_map);
}

}  // namespace lr::worker
