// Which algorithm a configuration names, and how its groups get their options. Refusals say what
// exists. Thread: step thread.
#include "worker/optim/optimizer.h"

#include <ATen/ATen.h>

#include "common/base/text.h"
#include "worker/optim/algorithms.h"

namespace lr::worker {

namespace {

const std::vector<std::string>& KnownTypes() {
  static const std::vector<std::string> types = {"adam", "adamw", "sgd", "xvla-adamw"};
  return types;
}

Status UnknownType(const std::string& type) {
  if (type == "multi_adam") {
    return Unimplemented(
        "optimizer type 'multi_adam' keeps one optimizer per module, which this build does not "
        "train with; choose one of {}",
        Join(KnownTypes(), ", "));
  }
  const std::optional<std::string> nearest = NearestName(type, KnownTypes());
  return InvalidArgument("unknown optimizer type '{}'{}; the types are {}",
                         type,
                         nearest ? fmt::format(" (did you mean '{}'?)", *nearest) : "",
                         Join(KnownTypes(), ", "));
}

Status CheckOptions(const OptimizerConfig& config) {
  if (config.type == "sgd" && config.nesterov &&
      (config.momentum <= 0.0 || config.dampening != 0.0)) {
    return InvalidArgument(
        "optimizer.nesterov needs a positive momentum and zero dampening (momentum {}, dampening "
        "{})",
        config.momentum,
        config.dampening);
  }
  for (const double beta : config.betas) {
    if (config.type != "sgd" && !(beta >= 0.0 && beta < 1.0)) {
      return InvalidArgument(
          "optimizer.betas are ({}, {}); each must be at least 0 and less than 1",
          config.betas[0],
          config.betas[1]);
    }
  }
  for (const auto& [name, value] : {std::pair{"lr", config.lr},
                                    {"eps", config.eps},
                                    {"weight_decay", config.weight_decay},
                                    {"momentum", config.momentum}}) {
    if (!(value >= 0.0)) {
      return InvalidArgument("optimizer.{} is {}; it must not be negative", name, value);
    }
  }
  return {};
}

/// X-VLA's recipe: the vision-language model learns at a tenth of the rate and decay, the soft
/// prompts at their own scale.
std::vector<OptimizerGroup> SortForXvla(const OptimizerConfig& config,
                                        const std::vector<OptimizerGroup>& groups) {
  OptimizerGroup vlm, soft_prompts, other;
  vlm.name = "vlm";
  soft_prompts.name = "soft_prompts";
  other.name = "other";
  for (OptimizerGroup* group : {&vlm, &soft_prompts, &other}) {
    group->options = config;
    group->lr = config.lr;
    group->lr_is_own = true;
  }
  vlm.lr *= 0.1;
  vlm.options.weight_decay *= 0.1;
  soft_prompts.lr *= config.soft_prompt_warmup_lr_scale.value_or(config.soft_prompt_lr_scale);

  for (const OptimizerGroup& group : groups) {
    for (size_t i = 0; i < group.params.size(); ++i) {
      const std::string& name = group.names[i];
      OptimizerGroup& target = name.find("vlm") != std::string::npos           ? vlm
                               : name.find("soft_prompt") != std::string::npos ? soft_prompts
                                                                               : other;
      target.names.push_back(group.names[i]);
      target.params.push_back(group.params[i]);
    }
  }
  std::vector<OptimizerGroup> sorted;
  for (OptimizerGroup* group : {&vlm, &soft_prompts, &other}) {
    if (!group->params.empty()) {
      sorted.push_back(std::move(*group));
    }
  }
  return sorted;
}

}  // namespace

Result<std::unique_ptr<Optimizer>> Optimizer::Create(const OptimizerConfig& config,
                                                     std::vector<OptimizerGroup> groups) {
  LR_TRY(CheckOptions(config));
  for (OptimizerGroup& group : groups) {
    LR_CHECK(group.names.size() == group.params.size(),
             "an optimizer group has {} names for {} parameters",
             group.names.size(),
             group.params.size());
    group.options = config;
    if (!group.lr_is_own) {
      group.lr = config.lr;
    }
  }
  if (config.type == "adam" || config.type == "adamw") {
    const bool decoupled = config.type == "adamw";
    return std::unique_ptr<Optimizer>(new internal::Adam(std::move(groups), decoupled));
  }
  if (config.type == "xvla-adamw") {
    return std::unique_ptr<Optimizer>(new internal::Adam(SortForXvla(config, groups), true));
  }
  if (config.type == "sgd") {
    return std::unique_ptr<Optimizer>(new internal::Sgd(std::move(groups)));
  }
  return UnknownType(config.type);
}

void Optimizer::ZeroGrad() {
  for (OptimizerGroup& group : groups_) {
    for (at::Tensor& param : group.params) {
      param.mutable_grad().reset();
    }
  }
}

}  // namespace lr::worker
