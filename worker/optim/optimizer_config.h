#pragma once
/// Optimizer and schedule settings as the training configuration and the policies' presets state
/// them. Plain data.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace lr::worker {

/// `--optimizer.*`. `type` is adam, adamw, sgd, xvla-adamw or multi_adam; fields of other types are
/// ignored by the chosen one and not written to its JSON.
struct OptimizerConfig {
  std::string type = "adam";
  double lr = 1e-3;
  double weight_decay = 0.0;
  double grad_clip_norm = 10.0;  ///< 0: gradients are not clipped
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
  double soft_prompt_lr_scale = 1.0;  ///< xvla-adamw only
  std::optional<double> soft_prompt_warmup_lr_scale =
      std::nullopt;  ///< xvla-adamw only; replaces the scale above
};

/// `--scheduler.*`. `type` is diffuser, vqbet, constant_with_warmup, cosine_annealing_with_warmup
/// or cosine_decay_with_warmup.
struct SchedulerConfig {
  std::string type;
  std::optional<int64_t> num_warmup_steps = std::nullopt;
  std::string name = "cosine";           ///< diffuser only
  int64_t num_vqvae_training_steps = 0;  ///< vqbet only
  double num_cycles = 0.5;               ///< vqbet only
  int64_t num_decay_steps = 0;           ///< cosine_decay_with_warmup only
  double peak_lr = 0.0;
  double decay_lr = 0.0;
};

}  // namespace lr::worker
