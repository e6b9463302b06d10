#include "worker/checkpoint/training_step.h"

#include <array>

namespace lr::worker {
namespace {

using TopologyField = std::pair<const char*, int64_t SavedTopology::*>;

constexpr std::array<TopologyField, 4> kTopologyFields = {
    {{"dp_replicate", &SavedTopology::dp_replicate},
     {"dp_shard", &SavedTopology::dp_shard},
     {"ring_degree", &SavedTopology::ring_degree},
     {"ulysses_degree", &SavedTopology::ulysses_degree}}};

template <typename T>
void Put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) {
    json[key] = *value;
  }
}

/// Absent and null are "unknown".
Result<std::optional<int64_t>> Count(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) {
    return std::optional<int64_t>();
  }
  if (!it->is_number_integer() || it->get<int64_t>() < 0) {
    return InvalidArgument("`{}` is {}, not a count", key, it->dump());
  }
  return std::optional<int64_t>(it->get<int64_t>());
}

Result<std::optional<SavedTopology>> Topology(const Json& json) {
  const auto it = json.find("parallelism");
  if (it == json.end() || it->is_null()) {
    return std::optional<SavedTopology>();
  }
  if (!it->is_object()) {
    return InvalidArgument("`parallelism` is not an object");
  }
  SavedTopology topology;
  for (const auto& [key, field] : kTopologyFields) {
    LR_ASSIGN(const std::optional<int64_t> value, Count(*it, key).WithContext("parallelism"));
    topology.*field = value.value_or(1);
  }
  return std::optional<SavedTopology>(topology);
}

std::optional<std::string> Precision(const Json& json) {
  for (const char* key : {"mixed_precision", "precision"}) {
    const auto it = json.find(key);
    if (it != json.end() && it->is_string()) {
      return it->get<std::string>();
    }
  }
  return std::nullopt;
}

Status ReadCounts(const Json& json, TrainingStep& step) {
  LR_ASSIGN(step.dp_world_size, Count(json, "dp_world_size"));
  if (!step.dp_world_size) {
    LR_ASSIGN(step.dp_world_size, Count(json, "num_processes"));
  }
  LR_ASSIGN(step.batch_size, Count(json, "batch_size"));
  LR_ASSIGN(step.grad_accum_steps, Count(json, "grad_accum_steps"));
  LR_ASSIGN(step.dataset_frames, Count(json, "dataset_frames"));
  LR_ASSIGN(step.dataset_episodes, Count(json, "dataset_episodes"));
  LR_ASSIGN(step.sampler_positions, Count(json, "sampler_positions"));
  return {};
}

void ReadOverrides(const Json& json, TrainingStep& step) {
  const auto it = json.find("environment_overrides_acknowledged");
  if (it == json.end() || !it->is_object()) {
    return;
  }
  for (const auto& [name, value] : it->items()) {
    if (value.is_string()) {
      step.environment_overrides_acknowledged.emplace_back(name, value.get<std::string>());
    }
  }
}

void Compare(const char* name,
             std::optional<int64_t> saved,
             std::optional<int64_t> current,
             std::vector<std::string>& changes) {
  if (saved && current && *saved != *current) {
    changes.push_back(fmt::format("{}: {} -> {}", name, *saved, *current));
  }
}

}  // namespace

Json TrainingStepJson(const TrainingStep& step) {
  Json json = {{"step", step.step}};
  Put(json, "dp_world_size", step.dp_world_size);
  Put(json, "batch_size", step.batch_size);
  Put(json, "grad_accum_steps", step.grad_accum_steps);
  if (step.parallelism) {
    Json topology = Json::object();
    for (const auto& [key, field] : kTopologyFields) {
      topology[key] = (*step.parallelism).*field;
    }
    json["parallelism"] = std::move(topology);
  }
  Put(json, "mixed_precision", step.mixed_precision);
  Put(json, "dataset_frames", step.dataset_frames);
  Put(json, "dataset_episodes", step.dataset_episodes);
  Put(json, "sampler_positions", step.sampler_positions);
  if (!step.environment_overrides_acknowledged.empty()) {
    Json overrides = Json::object();
    for (const auto& [name, value] : step.environment_overrides_acknowledged) {
      overrides[name] = value;
    }
    json["environment_overrides_acknowledged"] = std::move(overrides);
  }
  return json;
}

Result<TrainingStep> ParseTrainingStep(const Json& json) {
  if (!json.is_object()) {
    return InvalidArgument("not a JSON object");
  }
  LR_ASSIGN(const std::optional<int64_t> at, Count(json, "step"));
  if (!at) {
    return InvalidArgument("`step` is missing");
  }
  TrainingStep step;
  step.step = *at;
  LR_TRY(ReadCounts(json, step));
  LR_ASSIGN(step.parallelism, Topology(json));
  step.mixed_precision = Precision(json);
  ReadOverrides(json, step);
  return step;
}

std::vector<std::string> TopologyChanges(const TrainingStep& saved, const TrainingStep& current) {
  std::vector<std::string> changes;
  Compare("grad_accum_steps", saved.grad_accum_steps, current.grad_accum_steps, changes);
  if (saved.parallelism && current.parallelism) {
    for (const auto& [key, field] : kTopologyFields) {
      Compare(key, (*saved.parallelism).*field, (*current.parallelism).*field, changes);
    }
  }
  return changes;
}

}  // namespace lr::worker
