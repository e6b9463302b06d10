#include "worker/checkpoint/optimizer_file.h"

#include <array>
#include <cmath>
#include <map>
#include <set>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "common/base/text.h"
#include "common/contract/checkpoint_layout.h"

namespace lr::worker {
namespace {

constexpr char kSgd[] = "sgd";
constexpr char kXvla[] = "xvla-adamw";

bool IsSgd(const OptimizerGroup& group) {
  return group.options.type == kSgd;
}

Json GroupJson(const OptimizerGroup& group, int64_t first_id) {
  const OptimizerConfig& options = group.options;
  Json json = {{"lr", group.lr}};
  if (options.type == kXvla) {  // keys that its parameter groups state themselves come first
    json["weight_decay"] = options.weight_decay;
    json["name"] = group.name;
  }
  if (IsSgd(group)) {
    json["momentum"] = options.momentum;
    json["dampening"] = options.dampening;
    json["weight_decay"] = options.weight_decay;
    json["nesterov"] = options.nesterov;
    json["maximize"] = false;
    json["foreach"] = nullptr;
    json["differentiable"] = false;
    json["fused"] = nullptr;
  } else {
    json["betas"] = {options.betas[0], options.betas[1]};
    json["eps"] = options.eps;
    json["weight_decay"] = options.weight_decay;
    json["amsgrad"] = false;
    json["maximize"] = false;
    json["foreach"] = nullptr;
    json["capturable"] = false;
    json["differentiable"] = false;
    json["fused"] = nullptr;
    json["decoupled_weight_decay"] = options.type != "adam";
  }
  if (group.initial_lr) {
    json["initial_lr"] = *group.initial_lr;
  }
  Json ids = Json::array();
  for (size_t i = 0; i < group.params.size(); ++i) {
    ids.push_back(first_id + static_cast<int64_t>(i));
  }
  json["params"] = std::move(ids);
  return json;
}

/// Reads one saved group into a copy of the live one.
class GroupReader {
 public:
  GroupReader(const Json& json, OptimizerGroup& group, std::set<std::string>& warnings)
      : json_(json), group_(group), warnings_(warnings) {}

  Status Read() {
    LR_TRY(Number("lr", group_.lr));
    if (json_.contains("initial_lr")) {
      double initial_lr = 0.0;
      LR_TRY(Number("initial_lr", initial_lr));
      group_.initial_lr = initial_lr;
    }
    LR_TRY(Number("weight_decay", group_.options.weight_decay));
    LR_TRY(IsSgd(group_) ? ReadSgd() : ReadAdam());
    for (const char* flag : {"amsgrad", "maximize"}) {
      if (json_.contains(flag) && json_[flag] == true) {
        return Unimplemented("`{}` is true: this optimizer cannot continue such a run", flag);
      }
    }
    for (const auto& [key, value] : json_.items()) {
      if (!Ignorable(key) && !known_.contains(key)) {
        warnings_.insert(fmt::format("optimizer group key `{}` is not known and ignored", key));
      }
    }
    return {};
  }

 private:
  static bool Ignorable(const std::string& key) {
    static const std::set<std::string> ignorable = {"params",
                                                    "param_names",
                                                    "name",
                                                    "initial_lr",
                                                    "amsgrad",
                                                    "maximize",
                                                    "foreach",
                                                    "capturable",
                                                    "differentiable",
                                                    "fused",
                                                    "decoupled_weight_decay"};
    return ignorable.contains(key);
  }

  Status ReadAdam() {
    LR_TRY(Number("eps", group_.options.eps));
    known_.insert("betas");
    if (!json_.contains("betas")) {
      Missing("betas");
      return {};
    }
    const Json& betas = json_["betas"];
    if (!betas.is_array() || betas.size() != 2 || !betas[0].is_number() || !betas[1].is_number()) {
      return InvalidArgument("`betas` is not a pair of numbers");
    }
    group_.options.betas = {betas[0].get<double>(), betas[1].get<double>()};
    return {};
  }

  Status ReadSgd() {
    LR_TRY(Number("momentum", group_.options.momentum));
    LR_TRY(Number("dampening", group_.options.dampening));
    known_.insert("nesterov");
    if (json_.contains("nesterov") && json_["nesterov"].is_boolean()) {
      group_.options.nesterov = json_["nesterov"].get<bool>();
    }
    return {};
  }

  Status Number(const char* key, double& value) {
    known_.insert(key);
    if (!json_.contains(key)) {
      Missing(key);
      return {};
    }
    if (!json_[key].is_number() || !std::isfinite(json_[key].get<double>())) {
      return InvalidArgument("`{}` is {}, not a finite number", key, json_[key].dump());
    }
    value = json_[key].get<double>();
    return {};
  }

  void Missing(const char* key) {
    warnings_.insert(
        fmt::format("optimizer group key `{}` is missing: the current value stays", key));
  }

  const Json& json_;
  OptimizerGroup& group_;
  std::set<std::string>& warnings_;
  std::set<std::string> known_;
};

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
    LR_TRY(GroupReader(json[i], restored.groups[i], restored.warnings)
               .Read()
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
  at::Tensor tensor;
};

std::vector<Parameter> Parameters(const std::vector<OptimizerGroup>& groups) {
  std::vector<Parameter> parameters;
  for (const OptimizerGroup& group : groups) {
    for (const at::Tensor& param : group.params) {
      parameters.push_back({&group, param});
    }
  }
  return parameters;
}

std::vector<std::string> StateNames(const OptimizerGroup& group) {
  return IsSgd(group) ? std::vector<std::string>{"momentum_buffer"}
                      : std::vector<std::string>{"step", "exp_avg", "exp_avg_sq"};
}

/// A state tensor as the optimizer keeps it: `step` a float32 scalar, the rest like the parameter.
Result<at::Tensor> LoadState(const SafetensorsFile& file,
                             const std::string& key,
                             const std::string& name,
                             const at::Tensor& param) {
  const SafetensorsEntry& entry = *file.Find(key);
  const std::vector<int64_t> shape(entry.shape.begin(), entry.shape.end());
  const bool is_step = name == "step";
  if (is_step ? !shape.empty() : c10::IntArrayRef(shape) != param.sizes()) {
    return InvalidArgument("{} has shape [{}], expected [{}]",
                           key,
                           fmt::join(shape, ", "),
                           is_step ? "" : fmt::format("{}", fmt::join(param.sizes(), ", ")));
  }
  LR_ASSIGN(const at::Tensor loaded, file.Load(key));
  if (is_step) {
    return loaded.to(param.options().dtype(at::kFloat));
  }
  return at::empty_like(param).detach().copy_(loaded);
}

Status ReadState(const SafetensorsFile& file, Restored& restored) {
  const at::NoGradGuard no_grad;
  const std::vector<Parameter> parameters = Parameters(restored.groups);
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
    const std::vector<std::string> names = StateNames(*parameter.group);
    if (std::find(names.begin(), names.end(), key->name) == names.end()) {
      restored.warnings.insert(
          fmt::format("optimizer state `{}` is not known and ignored", key->name));
      continue;
    }
    LR_ASSIGN(restored.state[id->second][key->name],
              LoadState(file, entry.name, key->name, parameter.tensor));
  }
  for (const auto& [id, state] : restored.state) {
    const std::vector<std::string> names = StateNames(*parameters[static_cast<size_t>(id)].group);
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

Json OptimizerParamGroups(const Optimizer& optimizer) {
  Json groups = Json::array();
  int64_t first_id = 0;
  for (const OptimizerGroup& group : optimizer.groups()) {
    groups.push_back(GroupJson(group, first_id));
    first_id += static_cast<int64_t>(group.params.size());
  }
  return groups;
}

Result<std::vector<std::string>> LoadOptimizer(const std::filesystem::path& training_state,
                                               Optimizer& optimizer) {
  const std::filesystem::path step_directory = training_state.parent_path();
  const std::string groups_path = (step_directory / kOptimizerGroupsPath).string();
  LR_ASSIGN(const Json json, ReadJsonFile(groups_path));
  Restored restored;
  restored.groups = optimizer.groups();
  LR_TRY(ReadGroups(json, restored).WithContext("'{}'", groups_path));
  LR_ASSIGN(const SafetensorsFile file,
            SafetensorsFile::Open(step_directory / kOptimizerStatePath));
  LR_TRY(ReadState(file, restored).WithContext("'{}'", file.path().string()));
  optimizer.groups() = std::move(restored.groups);
  optimizer.state() = std::move(restored.state);
  return std::vector<std::string>(restored.warnings.begin(), restored.warnings.end());
}

}  // namespace lr::worker
