#include "worker/accelerator/accelerator_config_check.h"

#include <utility>

namespace lr::worker {

namespace {

Status AtLeast(const char* flag, int64_t value, int64_t limit) {
  return value >= limit ? Status()
                        : InvalidArgument("--{}={}: must be at least {}", flag, value, limit);
}

Status CheckParallelism(const ParallelismConfig& degrees) {
  LR_TRY(AtLeast("parallelism.dp_replicate", degrees.dp_replicate, 1));
  if (degrees.dp_shard != -1) {
    LR_TRY(AtLeast("parallelism.dp_shard", degrees.dp_shard, 1));
  }
  const std::pair<const char*, int64_t> only_one[] = {
      {"context_parallel.ring_degree", degrees.context_parallel.ring_degree},
      {"context_parallel.ulysses_degree", degrees.context_parallel.ulysses_degree},
      {"cfg_parallel", degrees.cfg_parallel},
  };
  for (const auto& [name, value] : only_one) {
    if (value != 1) {
      return InvalidArgument(
          "--parallelism.{}={}: training works with 1 only; use --parallelism.dp_replicate and "
          "--parallelism.dp_shard",
          name,
          value);
    }
  }
  return {};
}

Status CheckAccumulation(const AcceleratorConfig& config, const ParallelismConfig& degrees) {
  LR_TRY(AtLeast("accelerator.gradient_accumulation.steps", config.gradient_accumulation.steps, 1));
  if (config.gradient_accumulation.mode == AccumulationMode::kShard && degrees.dp_shard == 1) {
    return InvalidArgument(
        "--accelerator.gradient_accumulation.mode=shard: gradients are reduced into shards, which "
        "a run without them has not; use nosync or --parallelism.dp_shard=-1");
  }
  return {};
}

Status CheckScaler(const GradScalerConfig& scaler) {
  if (!(scaler.init_scale > 0.0)) {
    return InvalidArgument("--accelerator.grad_scaler.init_scale={}: must be above 0",
                           scaler.init_scale);
  }
  if (!(scaler.growth_factor > 1.0)) {
    return InvalidArgument("--accelerator.grad_scaler.growth_factor={}: must be above 1",
                           scaler.growth_factor);
  }
  if (!(scaler.backoff_factor > 0.0 && scaler.backoff_factor < 1.0)) {
    return InvalidArgument("--accelerator.grad_scaler.backoff_factor={}: must be between 0 and 1",
                           scaler.backoff_factor);
  }
  return AtLeast("accelerator.grad_scaler.growth_interval", scaler.growth_interval, 1);
}

Status CheckPrecision(const AcceleratorConfig& config, bool on_cpu) {
  const bool fp16 = config.mixed_precision == MixedPrecision::kFp16;
  if (fp16 && on_cpu) {
    return InvalidArgument(
        "--accelerator.mixed_precision=fp16 with --policy.device=cpu: no loss scaler exists on the "
        "CPU and the run would silently be full precision; use bf16, which works there, or no");
  }
  const MixedPrecisionPolicyConfig& policy = config.fsdp.mixed_precision_policy;
  const std::pair<const char*, std::optional<ParameterDtype>> dtypes[] = {
      {"param_dtype", policy.param_dtype},
      {"reduce_dtype", policy.reduce_dtype},
      {"output_dtype", policy.output_dtype},
  };
  for (const auto& [name, dtype] : dtypes) {
    if (dtype == ParameterDtype::kFloat16 && !fp16) {
      return InvalidArgument(
          "--accelerator.fsdp.mixed_precision_policy.{}=float16: the loss scaler is built only by "
          "--accelerator.mixed_precision=fp16; set it too",
          name);
    }
  }
  return CheckScaler(config.grad_scaler);
}

Status CheckWrapping(const FsdpConfig& fsdp) {
  if (fsdp.wrap_modules && fsdp.min_num_params) {
    return InvalidArgument(
        "--accelerator.fsdp.wrap_modules and --accelerator.fsdp.min_num_params exclude each other: "
        "give one of them");
  }
  if (fsdp.min_num_params) {
    LR_TRY(AtLeast("accelerator.fsdp.min_num_params", *fsdp.min_num_params, 1));
  }
  const bool named = fsdp.wrap_modules && !fsdp.wrap_modules->empty() &&
                     *fsdp.wrap_modules != std::vector<std::string>{""};
  if (fsdp.wrap_modules && !named) {
    return InvalidArgument("--accelerator.fsdp.wrap_modules: the list names no class");
  }
  return {};
}

}  // namespace

Status CheckAcceleratorConfig(const AcceleratorConfig& config,
                              const ParallelismConfig& degrees,
                              bool on_cpu) {
  LR_TRY(CheckParallelism(degrees));
  LR_TRY(CheckAccumulation(config, degrees));
  LR_TRY(CheckPrecision(config, on_cpu));
  return CheckWrapping(config.fsdp);
}

}  // namespace lr::worker
