#include "worker/checkpoint/optimizer_file.h"

#include <algorithm>
#include <map>
#include <set>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "common/base/text.h"
#include "common/contract/checkpoint_layout.h"
#include "worker/checkpoint/dcp/sharded_rows.h"

namespace lr::worker {
namespace {

/// Everything that a successful load replaces, gathered before the optimizer is touched.
struct Restored {
  std::vector<OptimizerGroup> groups;
  std::map<int64_t, int64_t> ids;  ///< saved id -> ours
  std::map<int64_t, Optimizer::State> state;
  std::set<std::string> warnings;
};

Status ReadParams(const Json& json, size_t expected, Restored& restored) {
  if (!json.contains("params") || !json["params"].is_array()) {
    return InvalidArgument("`params` is missing");
  }
  const Json& params = json["params"];
  if (params.size() != expected) {
    return InvalidArgument(
        "the file has {} parameters, the optimizer has {}", params.size(), expected);
  }
  for (const Json& id : params) {
    const auto ours = static_cast<int64_t>(restored.ids.size());
    if (!id.is_number_integer() || !restored.ids.emplace(id.get<int64_t>(), ours).second) {
      return InvalidArgument("`params` holds {}, which is no integer or a repetition", id.dump());
    }
  }
  return {};
}

Status ReadGroups(const Json& json, Restored& restored) {
  if (!json.is_array()) {
    return InvalidArgument("not an array of groups");
  }
  if (json.size() != restored.groups.size()) {
    return InvalidArgument("the file has {} parameter groups, the optimizer has {}",
                           json.size(),
                           restored.groups.size());
  }
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_object()) {
      return InvalidArgument("group {} is not an object", i);
    }
    LR_TRY(
        ReadParams(json[i], restored.groups[i].params.size(), restored).WithContext("group {}", i));
    LR_TRY(ReadOptimizerOptions(json[i], restored.groups[i], restored.warnings)
               .WithContext("group {}", i));
  }
  return {};
}

struct StateKey {
  int64_t id = 0;
  std::string name;
};

std::optional<StateKey> ParseStateKey(const std::string& key) {
  const std::vector<std::string> parts = Split(key, '/');
  if (parts.size() != 3 || parts[0] != "state" || parts[2].empty()) {
    return std::nullopt;
  }
  const std::optional<int64_t> id = ParseInt(parts[1]);
  return id ? std::optional(StateKey{*id, parts[2]}) : std::nullopt;
}

/// The live parameter and group of each of our ids.
struct Parameter {
  const OptimizerGroup* group;
  ShardedParameter held;
};

std::vector<Parameter> Parameters(const std::vector<OptimizerGroup>& groups,
                                  const std::vector<ShardedParameter>& held) {
  std::map<const at::TensorImpl*, const ShardedParameter*> known;
  for (const ShardedParameter& one : held) {
    known[one.shard.unsafeGetTensorImpl()] = &one;
  }
  std::vector<Parameter> parameters;
  for (const OptimizerGroup& group : groups) {
    for (const at::Tensor& param : group.params) {
      const auto found = known.find(param.unsafeGetTensorImpl());
      parameters.push_back({&group,
                            found != known.end()
                                ? *found->second
                                : ShardedParameter{{}, param, param.sizes().vec(), false}});
    }
  }
  return parameters;
}

/// A state tensor as the optimizer keeps it: `step` a float32 scalar, the rest like the parameter.
Result<at::Tensor> LoadState(const SafetensorsFile& file,
                             const std::string& key,
                             const std::string& name,
                             const ShardedParameter& parameter,
                             const DcpPlace& place) {
  const SafetensorsEntry& entry = *file.Find(key);
  const std::vector<int64_t> shape(entry.shape.begin(), entry.shape.end());
  const bool is_step = name == "step";
  if (is_step ? !shape.empty() : shape != parameter.full_shape) {
    return InvalidArgument("{} has shape [{}], expected [{}]",
                           key,
                           fmt::join(shape, ", "),
                           is_step ? "" : fmt::format("{}", fmt::join(parameter.full_shape, ", ")));
  }
  LR_ASSIGN(at::Tensor loaded, file.Load(key));
  if (is_step) {
    return loaded.to(parameter.shard.options().dtype(at::kFloat));
  }
  if (parameter.is_sharded) {
    const DcpRows rows = RowsOf(parameter, place);
    loaded = loaded.narrow(0, rows.first, rows.count);
  }
  return at::empty_like(parameter.shard).detach().copy_(loaded);
}

Status ReadState(const SafetensorsFile& file,
                 const std::vector<ShardedParameter>& held,
                 const DcpPlace& place,
                 Restored& restored) {
  const at::NoGradGuard no_grad;
  const std::vector<Parameter> parameters = Parameters(restored.groups, held);
  for (const SafetensorsEntry& entry : file.entries()) {
    const std::optional<StateKey> key = ParseStateKey(entry.name);
    if (!key) {
      restored.warnings.insert(
          fmt::format("tensor `{}` is no optimizer state and ignored", entry.name));
      continue;
    }
    const auto id = restored.ids.find(key->id);
    if (id == restored.ids.end()) {
      return InvalidArgument("{} belongs to no parameter of the groups", entry.name);
    }
    const Parameter& parameter = parameters[static_cast<size_t>(id->second)];
    const std::vector<std::string> names = OptimizerStateNames(*parameter.group);
    if (std::find(names.begin(), names.end(), key->name) == names.end()) {
      restored.warnings.insert(
          fmt::format("optimizer state `{}` is not known and ignored", key->name));
      continue;
    }
    LR_ASSIGN(restored.state[id->second][key->name],
              LoadState(file, entry.name, key->name, parameter.held, place));
  }
  for (const auto& [id, state] : restored.state) {
    const std::vector<std::string> names =
        OptimizerStateNames(*parameters[static_cast<size_t>(id)].group);
    if (state.size() != names.size()) {
      return InvalidArgument(
          "the state of parameter {} has {} of {} tensors", id, state.size(), names.size());
    }
  }
  return {};
}

}  // namespace

NamedTensors OptimizerStateTensors(const Optimizer& optimizer) {
  NamedTensors tensors;
  for (const auto& [id, state] : optimizer.state()) {
    for (const auto& [name, tensor] : state) {
      if (tensor.defined()) {
        tensors.emplace_back(fmt::format("state/{}/{}", id, name), tensor);
      }
    }
  }
  return tensors;
}

Result<std::vector<std::string>> LoadOptimizer(const std::filesystem::path& training_state,
                                               Optimizer& optimizer,
                                               const std::vector<ShardedParameter>& held,
                                               const DcpPlace& place) {
  const std::filesystem::path step_directory = training_state.parent_path();
  const std::string groups_path = (step_directory / kOptimizerGroupsPath).string();
  LR_ASSIGN(const Json json, ReadJsonFile(groups_path));
  Restored restored;
  restored.groups = optimizer.groups();
  LR_TRY(ReadGroups(json, restored).WithContext("'{}'", groups_path));
  LR_ASSIGN(const SafetensorsFile file,
            SafetensorsFile::Open(step_directory / kOptimizerStatePath));
  LR_TRY(ReadState(file, held, place, restored).WithContext("'{}'", file.path().string()));
  optimizer.groups() = std::move(restored.groups);
  optimizer.state() = std::move(restored.state);
  return std::vector<std::string>(restored.warnings.begin(), restored.warnings.end());
}

}  // namespace lr::worker
