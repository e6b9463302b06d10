// One function to write a group, one class to read it; keys and number types are torch's.
#include "worker/checkpoint/optimizer_groups.h"

#include <cmath>

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

}  // namespace

Json OptimizerParamGroups(const Optimizer& optimizer) {
  Json groups = Json::array();
  int64_t first_id = 0;
  for (const OptimizerGroup& group : optimizer.groups()) {
    groups.push_back(GroupJson(group, first_id));
    first_id += static_cast<int64_t>(group.params.size());
  }
  return groups;
}

Status ReadOptimizerOptions(const Json& saved,
                            OptimizerGroup& group,
                            std::set<std::string>& warnings) {
  return GroupReader(saved, group, warnings).Read();
}

std::vector<std::string> OptimizerStateNames(const OptimizerGroup& group) {
  return IsSgd(group) ? std::vector<std::string>{"momentum_buffer"}
                      : std::vector<std::string>{"step", "exp_avg", "exp_avg_sq"};
}

}  // namespace lr::worker
