/// The tables of sharded_training.md 3.2.
#include "worker/accelerator/engine_options.h"

#include <fmt/format.h>

namespace lr::worker {

namespace {

std::optional<c10::ScalarType> AutocastDtype(MixedPrecision precision) {
  switch (precision) {
    case MixedPrecision::kNo:
      return std::nullopt;
    case MixedPrecision::kBf16:
      return c10::ScalarType::BFloat16;
    case MixedPrecision::kFp16:
      return c10::ScalarType::Half;
  }
  return std::nullopt;
}

std::optional<c10::ScalarType> ScalarTypeOf(std::optional<ParameterDtype> dtype) {
  if (!dtype) {
    return std::nullopt;
  }
  switch (*dtype) {
    case ParameterDtype::kFloat32:
      return c10::ScalarType::Float;
    case ParameterDtype::kBfloat16:
      return c10::ScalarType::BFloat16;
    case ParameterDtype::kFloat16:
      return c10::ScalarType::Half;
  }
  return std::nullopt;
}

/// Once a field is given, the given ones alone make the policy.
ShardPrecision Precision(const AcceleratorConfig& config) {
  ShardPrecision precision;
  const MixedPrecisionPolicyConfig& given = config.fsdp.mixed_precision_policy;
  if (given.empty()) {
    precision.param_dtype = AutocastDtype(config.mixed_precision);
    precision.reduce_dtype = precision.param_dtype;
    precision.output_dtype = precision.param_dtype;
    return precision;
  }
  precision.param_dtype = ScalarTypeOf(given.param_dtype);
  precision.reduce_dtype = ScalarTypeOf(given.reduce_dtype);
  precision.output_dtype = ScalarTypeOf(given.output_dtype);
  precision.cast_forward_inputs = given.cast_forward_inputs.value_or(true);
  return precision;
}

std::string Name(std::optional<c10::ScalarType> dtype) {
  return dtype ? c10::toString(*dtype) : "as stored";
}

}  // namespace

EngineOptions MakeEngineOptions(const AcceleratorConfig& config,
                                const Topology& topology,
                                c10::Device device) {
  EngineOptions options;
  options.device = device;
  options.topology = topology;
  options.gradient_accumulation_steps = config.gradient_accumulation.steps;
  options.reduces_every_pass = config.gradient_accumulation.mode == AccumulationMode::kShard;
  options.autocast = AutocastDtype(config.mixed_precision);
  if (config.mixed_precision == MixedPrecision::kFp16) {
    const GradScalerConfig& scaler = config.grad_scaler;
    options.grad_scaler = {.scale = scaler.init_scale,
                           .growth_factor = scaler.growth_factor,
                           .backoff_factor = scaler.backoff_factor,
                           .growth_interval = scaler.growth_interval};
  }
  options.ddp.find_unused_parameters = config.ddp.find_unused_parameters;
  options.ddp.gradient_as_bucket_view = config.ddp.gradient_as_bucket_view;
  options.ddp.static_graph = config.ddp.static_graph;
  options.fsdp.find_unused_parameters = config.ddp.find_unused_parameters;
  options.fsdp.reshard_after_forward = config.fsdp.reshard_after_forward;
  options.fsdp.cpu_offload = config.fsdp.cpu_offload;
  options.fsdp.wrap.class_names = config.fsdp.wrap_modules.value_or(std::vector<std::string>());
  options.fsdp.wrap.min_num_params = config.fsdp.min_num_params;
  options.fsdp.wrap.ignored_modules = config.fsdp.ignored_modules;
  options.fsdp.precision = Precision(config);
  return options;
}

std::string DescribePrecision(const EngineOptions& options) {
  const std::string autocast = options.autocast
                                   ? fmt::format("autocast {}", c10::toString(*options.autocast))
                                   : "no autocast";
  if (!options.topology.uses_sharded_engine) {
    return fmt::format("Precision: {}, parameters and reduction Float", autocast);
  }
  const ShardPrecision& precision = options.fsdp.precision;
  return fmt::format("Precision: {}, parameters {}, reduction {}, outputs {}",
                     autocast,
                     Name(precision.param_dtype),
                     Name(precision.reduce_dtype),
                     Name(precision.output_dtype));
}

}  // namespace lr::worker
