#pragma once
/// `--parallelism.*` and `--accelerator.*`: everything the engine can be told (sharded_training.md
/// 0.1), and the degrees as they are once the world size is known. Plain data, no LibTorch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lr::worker {

enum class MixedPrecision { kNo, kBf16, kFp16 };

/// What happens to gradients between updates: kept local, or reduce-scattered each time to bound
/// memory.
enum class AccumulationMode { kNosync, kShard };

/// Names as the command line and train_config.json spell them: float32, bfloat16, float16.
enum class ParameterDtype { kFloat32, kBfloat16, kFloat16 };

struct ContextParallelConfig {
  int64_t ring_degree = 1;
  int64_t ulysses_degree = 1;
};

struct ParallelismConfig {
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;  ///< -1: all processes, divided by dp_replicate
  ContextParallelConfig context_parallel = {};
  int64_t cfg_parallel = 1;
};

/// The layout of one run after resolution (ResolveTopology, worker/accelerator/topology.h).
struct Topology {
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;
  /// dp_shard was not 1 before -1 was filled in: the sharded engine runs, even with one process.
  bool uses_sharded_engine = false;

  int64_t dp_world_size() const { return dp_replicate * dp_shard; }

  /// What checkpoints go by: a one-process dp_shard=-1 counts as non-sharded.
  bool sharded() const { return dp_shard > 1; }

  bool operator==(const Topology&) const = default;
};

struct GradientAccumulationConfig {
  int64_t steps = 1;
  AccumulationMode mode = AccumulationMode::kNosync;
};

/// Once any field is set, these fields alone make the policy.
struct MixedPrecisionPolicyConfig {
  std::optional<ParameterDtype> param_dtype = std::nullopt;
  std::optional<ParameterDtype> reduce_dtype = std::nullopt;
  std::optional<ParameterDtype> output_dtype = std::nullopt;
  std::optional<bool> cast_forward_inputs = std::nullopt;

  bool empty() const {
    return !param_dtype && !reduce_dtype && !output_dtype && !cast_forward_inputs;
  }
};

struct FsdpConfig {
  bool reshard_after_forward = true;
  std::optional<std::vector<std::string>> wrap_modules = std::nullopt;
  std::optional<int64_t> min_num_params = std::nullopt;
  bool cpu_offload = false;
  std::optional<std::string> ignored_modules =
      std::nullopt;  ///< regular expression, full match on module paths
  MixedPrecisionPolicyConfig mixed_precision_policy = {};
};

struct DdpConfig {
  bool find_unused_parameters = true;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
};

struct GradScalerConfig {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
};

struct CompileConfig {
  bool enabled = false;
  std::string backend = "inductor";
  std::optional<std::string> mode = std::nullopt;
  bool regional = true;
};

struct ActivationCheckpointingConfig {
  std::string mode = "none";
};

struct AcceleratorConfig {
  MixedPrecision mixed_precision = MixedPrecision::kNo;
  GradientAccumulationConfig gradient_accumulation;
  FsdpConfig fsdp;
  DdpConfig ddp;
  GradScalerConfig grad_scaler;
  CompileConfig compile;
  ActivationCheckpointingConfig activation_checkpointing;
};

}  // namespace lr::worker
