// `optimizer.state…` and `optimizer.param_groups…`: writing and reading.
#include <algorithm>
#include <map>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "worker/checkpoint/dcp/dcp_tensor.h"
#include "worker/checkpoint/dcp/sharded_rows.h"
#include "worker/checkpoint/dcp/sharded_state.h"
#include "worker/checkpoint/optimizer_groups.h"

namespace lr::worker {
namespace {

constexpr char kOptimizer[] = "optimizer";
constexpr char kState[] = "state";
constexpr char kGroups[] = "param_groups";
constexpr char kParams[] = "params";

using ParametersByName = std::map<std::string, const ShardedParameter*>;

ParametersByName ByName(const std::vector<ShardedParameter>& parameters) {
  ParametersByName by_name;
  for (const ShardedParameter& parameter : parameters) {
    for (const std::string& name : parameter.names) {
      by_name[name] = &parameter;
    }
  }
  return by_name;
}

Result<const ShardedParameter*> Find(const ParametersByName& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) {
    return InvalidArgument("the optimizer has parameter '{}', the model has not", name);
  }
  return found->second;
}

std::string StateKey(const std::string& parameter, const std::string& state) {
  return fmt::format("{}.{}.{}.{}", kOptimizer, kState, parameter, state);
}

/// A scalar is the same on all ranks; everything else is cut like its parameter.
Result<DcpEntry> StateEntry(const ShardedParameter& parameter,
                            const std::string& state,
                            const at::Tensor& tensor) {
  const std::string& name = parameter.names[0];
  DcpEntry entry{
      StateKey(name, state), {std::string(kOptimizer), std::string(kState), name, state}, tensor};
  if (tensor.dim() > 0 || parameter.full_shape.empty()) {
    entry.size = parameter.full_shape;
    entry.is_sharded = parameter.is_sharded;
    if (tensor.sizes() != parameter.shard.sizes()) {
      return InvalidArgument("'{}' has shape [{}], its parameter [{}]",
                             entry.key,
                             fmt::join(tensor.sizes(), ", "),
                             fmt::join(parameter.shard.sizes(), ", "));
    }
  }
  return entry;
}

/// `step` first, as torch has it.
Status AddState(const ShardedParameter& parameter,
                const OptimizerGroup& group,
                const Optimizer::State& state,
                std::vector<DcpEntry>& entries) {
  for (const std::string& name : OptimizerStateNames(group)) {
    const auto tensor = state.find(name);
    if (tensor != state.end() && tensor->second.defined()) {
      LR_ASSIGN(DcpEntry entry, StateEntry(parameter, name, tensor->second));
      entries.push_back(std::move(entry));
    }
  }
  return {};
}

DcpValue FromJson(const Json& json) {
  if (json.is_null()) {
    return {};
  }
  if (json.is_boolean()) {
    return json.get<bool>();
  }
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (json.is_array()) {
    return json.get<std::vector<double>>();
  }
  return json.get<double>();
}

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }

  template <typename T>
  Json operator()(const T& value) const {
    return value;
  }
};

/// The options of one group in torch's order, `params` last.
void AddGroup(size_t index,
              const Json& options,
              std::vector<std::string> params,
              std::vector<DcpEntry>& entries) {
  const auto add = [&](const std::string& option, DcpValue value) {
    entries.push_back(
        {fmt::format("{}.{}.{}.{}", kOptimizer, kGroups, index, option),
         {std::string(kOptimizer), std::string(kGroups), static_cast<int64_t>(index), option},
         std::move(value)});
  };
  for (const auto& [option, value] : options.items()) {
    if (option != kParams) {
      add(option, FromJson(value));
    }
  }
  add(kParams, std::move(params));
}

/// First names of a group's parameters: what the checkpoint calls them.
Result<std::vector<std::string>> SavedNames(const ParametersByName& parameters,
                                            const OptimizerGroup& group) {
  std::vector<std::string> names;
  for (const std::string& name : group.names) {
    LR_ASSIGN(const ShardedParameter* parameter, Find(parameters, name));
    names.push_back(parameter->names[0]);
  }
  return names;
}

/// Reads groups and state into copies; the optimizer is changed when all is there.
class OptimizerLoader {
 public:
  OptimizerLoader(DcpDirectory& directory,
                  const std::vector<ShardedParameter>& parameters,
                  const DcpPlace& place,
                  const Optimizer& optimizer)
      : directory_(directory),
        parameters_(ByName(parameters)),
        place_(place),
        groups_(optimizer.groups()),
        options_(OptimizerParamGroups(optimizer)) {}

  Status Load() {
    int64_t id = 0;
    for (size_t i = 0; i < groups_.size(); ++i) {
      LR_ASSIGN(const std::vector<std::string> names, SavedNames(parameters_, groups_[i]));
      LR_TRY(LoadGroup(i, names).WithContext("parameter group {}", i));
      for (const std::string& name : names) {
        LR_TRY(LoadState(id, groups_[i], *parameters_.at(name)));
        ++id;
      }
    }
    return {};
  }

  std::vector<std::string> Apply(Optimizer& optimizer) && {
    optimizer.groups() = std::move(groups_);
    optimizer.state() = std::move(state_);
    std::vector<std::string> notes = directory_.notes();
    notes.insert(notes.end(), warnings_.begin(), warnings_.end());
    return notes;
  }

 private:
  /// `optimizer.param_groups.<i>.`, or with the first parameter's name when keys are flattened.
  Result<std::string> GroupPrefix(size_t index, const std::vector<std::string>& names) {
    const std::string prefix = fmt::format("{}.{}.{}.", kOptimizer, kGroups, index);
    if (!directory_.metadata().values.contains(prefix + kParams)) {
      return fmt::format("{}.{}.{}.", kOptimizer, kGroups, names.empty() ? "" : names[0]);
    }
    LR_ASSIGN(const DcpValue value, directory_.ReadValue(prefix + kParams));
    const auto* saved = std::get_if<std::vector<std::string>>(&value);
    if (saved == nullptr || std::set<std::string>(saved->begin(), saved->end()) !=
                                std::set<std::string>(names.begin(), names.end())) {
      return InvalidArgument("the checkpoint's group has {} parameters, this one has {} or others",
                             saved == nullptr ? 0 : saved->size(),
                             names.size());
    }
    return prefix;
  }

  /// Only the options that this optimizer has are asked for.
  Status LoadGroup(size_t index, const std::vector<std::string>& names) {
    LR_ASSIGN(const std::string prefix, GroupPrefix(index, names));
    std::vector<std::string> wanted = {"initial_lr"};
    for (const auto& [option, value] : options_[index].items()) {
      wanted.push_back(option);
    }
    Json saved = Json::object();
    for (const std::string& option : wanted) {
      if (option == kParams) {
        continue;
      }
      if (directory_.metadata().values.contains(prefix + option)) {
        LR_ASSIGN(const DcpValue value, directory_.ReadValue(prefix + option));
        saved[option] = std::visit(ToJson(), value);
      } else if (directory_.metadata().tensors.contains(prefix + option)) {  // lr as a tensor
        LR_ASSIGN(const at::Tensor value, ReadDcpTensor(directory_, prefix + option));
        saved[option] = value.numel() == 1 ? Json(value.item<double>()) : Json();
      }
    }
    return ReadOptimizerOptions(saved, groups_[index], warnings_);
  }

  Status LoadState(int64_t id, const OptimizerGroup& group, const ShardedParameter& parameter) {
    const std::vector<std::string> names = OptimizerStateNames(group);
    std::vector<std::string> missing;
    for (const std::string& state : names) {
      const std::string key = StateKey(parameter.names[0], state);
      if (!directory_.metadata().tensors.contains(key)) {
        missing.push_back(key);
      }
    }
    if (missing.size() == names.size()) {
      return {};  // never updated
    }
    if (!missing.empty()) {
      return NotFound("the checkpoint lacks {}", fmt::join(missing, ", "));
    }
    for (const std::string& state : names) {
      LR_ASSIGN(state_[id][state], ReadState(StateKey(parameter.names[0], state), parameter));
    }
    return {};
  }

  /// A tensor as the optimizer keeps it: `step` a float32 scalar, the rest like the shard.
  Result<at::Tensor> ReadState(const std::string& key, const ShardedParameter& parameter) {
    const at::TensorOptions options = parameter.shard.options().requires_grad(false);
    if (directory_.metadata().tensors.at(key).size.empty() && !parameter.full_shape.empty()) {
      LR_ASSIGN(const at::Tensor scalar, ReadDcpTensor(directory_, key));
      return scalar.to(options.dtype(at::kFloat));
    }
    LR_TRY(CheckStoredShape(directory_.metadata(), key, parameter, place_));
    LR_ASSIGN(const at::Tensor rows, ReadDcpRows(directory_, key, RowsOf(parameter, place_)));
    return at::empty(rows.sizes(), options).copy_(rows);
  }

  DcpDirectory& directory_;
  ParametersByName parameters_;
  DcpPlace place_;
  std::vector<OptimizerGroup> groups_;
  Json options_;
  std::map<int64_t, Optimizer::State> state_;
  std::set<std::string> warnings_;
};

}  // namespace

Result<std::vector<DcpEntry>> OptimizerEntries(const std::vector<ShardedParameter>& parameters,
                                               const Optimizer& optimizer) {
  const ParametersByName by_name = ByName(parameters);
  std::vector<DcpEntry> entries;
  int64_t id = 0;
  for (const OptimizerGroup& group : optimizer.groups()) {
    for (const std::string& name : group.names) {
      LR_ASSIGN(const ShardedParameter* parameter, Find(by_name, name));
      if (const auto state = optimizer.state().find(id++); state != optimizer.state().end()) {
        LR_TRY(AddState(*parameter, group, state->second, entries));
      }
    }
  }
  const Json options = OptimizerParamGroups(optimizer);
  for (size_t i = 0; i < optimizer.groups().size(); ++i) {
    LR_ASSIGN(std::vector<std::string> names, SavedNames(by_name, optimizer.groups()[i]));
    AddGroup(i, options[i], std::move(names), entries);
  }
  return entries;
}

Result<std::vector<std::string>> LoadOptimizerEntries(
    DcpDirectory& directory,
    const std::vector<ShardedParameter>& parameters,
    const DcpPlace& place,
    Optimizer& optimizer) {
  OptimizerLoader loader(directory, parameters, place, optimizer);
  LR_TRY(loader.Load());
  return std::move(loader).Apply(optimizer);
}

}  // namespace lr::worker
