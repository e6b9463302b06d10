// The polymorphic groups (optimizer, scheduler: their fields follow from `type`), and the files
// that a configuration becomes.
#include <algorithm>

#include "common/base/text.h"
#include "worker/train/train_config_fields.h"

namespace lr::worker {

namespace {

using config::Group;
using config::Value;

/// The defaults that belong to a type; nullopt for an unknown one.
std::optional<OptimizerConfig> OptimizerDefaults(const std::string& type) {
  OptimizerConfig config;
  config.type = type;
  if (type == "adamw") {
    config.weight_decay = 1e-2;
  } else if (type == "xvla-adamw") {
    config.lr = 1e-4;
    config.betas = {0.9, 0.99};
  } else if (type == "multi_adam") {
    config.eps = 1e-5;
  } else if (type != "adam" && type != "sgd") {
    return std::nullopt;
  }
  return config;
}

const std::vector<std::string>& SchedulerTypes() {
  static const std::vector<std::string> types = {"diffuser",
                                                 "vqbet",
                                                 "constant_with_warmup",
                                                 "cosine_annealing_with_warmup",
                                                 "cosine_decay_with_warmup"};
  return types;
}

Status ReadText(const Value& value, std::string& out) {
  return config::Convert<std::string>::Read(value, out);
}

}  // namespace

void DescribeOptimizer(OptimizerConfig& c, Group& g) {
  Group::Field& type = g.Add("type", c.type, "adam, adamw, sgd, xvla-adamw or multi_adam.");
  type.read = [&c](const Value& value) {
    std::string name;
    LR_TRY(ReadText(value, name));
    const std::optional<OptimizerConfig> defaults = OptimizerDefaults(name);
    if (!defaults) {
      return InvalidArgument("'{}' is no optimizer; use adam, adamw, sgd, xvla-adamw or multi_adam",
                             name);
    }
    if (name != c.type) {
      c = *defaults;
    }
    return Status();
  };
  g.Add("lr", c.lr, "Learning rate; never scaled by the number of processes.");
  g.Add("weight_decay", c.weight_decay, "Weight decay.");
  g.Add("grad_clip_norm", c.grad_clip_norm, "Largest global gradient norm; 0: no clipping.");
  if (c.type == "sgd") {
    g.Add("momentum", c.momentum, "Momentum.");
    g.Add("dampening", c.dampening, "Dampening of the momentum.");
    g.Add("nesterov", c.nesterov, "Nesterov momentum.");
    return;
  }
  g.Add("betas", c.betas, "Decay of both moments.");
  g.Add("eps", c.eps, "Against division by zero.");
  if (c.type == "xvla-adamw") {
    g.Add("soft_prompt_lr_scale", c.soft_prompt_lr_scale, "Rate of soft prompts, times.");
    g.Add("soft_prompt_warmup_lr_scale", c.soft_prompt_warmup_lr_scale, "The same while warming.");
  }
}

void DescribeScheduler(SchedulerConfig& c, Group& g) {
  Group::Field& type =
      g.Add("type",
            c.type,
            "diffuser, vqbet, constant_with_warmup, cosine_annealing_with_warmup or "
            "cosine_decay_with_warmup.");
  type.read = [&c](const Value& value) {
    std::string name;
    LR_TRY(ReadText(value, name));
    const std::vector<std::string>& known = SchedulerTypes();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return InvalidArgument("'{}' is no schedule; use one of {}", name, Join(known, ", "));
    }
    if (name != c.type) {
      c = SchedulerConfig();
      c.type = name;
      if (name == "constant_with_warmup") {
        c.num_warmup_steps = 1000;
      }
    }
    return Status();
  };
  g.Add("num_warmup_steps", c.num_warmup_steps, "Steps of the warm-up.");
  if (c.type == "diffuser" || c.type.empty()) {
    g.Add("name", c.name, "Shape, as diffusers names it.");
  }
  if (c.type == "vqbet" || c.type.empty()) {
    g.Add("num_vqvae_training_steps", c.num_vqvae_training_steps, "Steps of the first phase.");
    g.Add("num_cycles", c.num_cycles, "Cosine cycles.");
  }
  if (c.type == "cosine_decay_with_warmup" || c.type.empty()) {
    g.Add("num_decay_steps", c.num_decay_steps, "Steps of the decay.");
    g.Add("peak_lr", c.peak_lr, "Highest rate.");
    g.Add("decay_lr", c.decay_lr, "Last rate.");
  }
}

namespace {

/// Keys of another version return to the group they came from, behind those we know.
void AddUnknown(const Json& unknown, Json& json) {
  for (const auto& [key, value] : unknown.items()) {
    if (!json.contains(key)) {
      json[key] = value;
    } else if (json[key].is_object() && value.is_object()) {
      AddUnknown(value, json[key]);
    }
  }
}

}  // namespace

Json ToJson(const TrainConfig& config) {
  TrainConfig copy = config;
  TrainConfig defaults;
  Group group;
  Group plain;
  DescribeTrainConfig(copy, group);
  DescribeTrainConfig(defaults, plain);
  Json json = group.WriteJson(&plain);
  AddUnknown(config.unknown_keys, json);
  return json;
}

std::string DumpConfigFile(const Json& json) {
  return DumpPythonJson(json, 4);
}

}  // namespace lr::worker
