#include "common/contract/foreign_inventory.h"

#include <algorithm>
#include <array>

namespace lr::internal {
namespace {

constexpr std::string_view kShardReason =
    "it turns on sharding that this run's configuration does not record";
constexpr std::string_view kShardOption = "--parallelism.dp_shard=N";
constexpr std::string_view kAccumulationReason =
    "it changes gradient accumulation behind the recorded configuration";
constexpr std::string_view kDeepSpeedReason =
    "it configures DeepSpeed, which this trainer does not use";
constexpr std::string_view kDeepSpeedOption =
    "--parallelism.dp_shard=N shards parameters, gradients and optimizer state";
constexpr std::string_view kFp8Reason =
    "it configures fp8 training, which this trainer does not have";
constexpr std::string_view kPrecisionOption = "--accelerator.mixed_precision=no|bf16|fp16";
constexpr std::string_view kDynamoReason =
    "it asks for graph compilation, which this trainer does not do";
constexpr std::string_view kDynamoOption = "unset it, or use --dynamo_backend=no";
constexpr std::string_view kDeviceOption = "--policy.device";

using enum ForeignRule;
using Fact = ForeignFact;

constexpr std::array kInventory = std::to_array<ForeignEntry>({
    {"ACCELERATE_USE_FSDP", kPresent, kShardReason, kShardOption, Fact::kSharding},
    {"ACCELERATE_USE_PARALLELISM_CONFIG",
     kPresent,
     "it sets parallel degrees that this run's configuration does not record",
     "--parallelism.dp_replicate=R --parallelism.dp_shard=S",
     Fact::kSharding},
    {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
     kPresent,
     kAccumulationReason,
     "--accelerator.gradient_accumulation.steps=K",
     Fact::kAccumulation},
    {"ACCELERATE_USE_DEEPSPEED",
     kPresentWhenTrue,
     kDeepSpeedReason,
     kDeepSpeedOption,
     Fact::kSharding},
    {"ACCELERATE_USE_MEGATRON_LM",
     kPresentWhenTrue,
     "it turns on Megatron-LM, which this trainer does not use",
     kShardOption,
     Fact::kSharding},
    {"ACCELERATE_CONFIG_DS_FIELDS", kPresent, kDeepSpeedReason, kDeepSpeedOption},
    {"ACCELERATE_DEEPSPEED_ZERO_STAGE", kPresent, kDeepSpeedReason, kDeepSpeedOption},
    {"ACCELERATE_DEEPSPEED_CONFIG_FILE", kPresent, kDeepSpeedReason, kDeepSpeedOption},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
     kPresent,
     kDeepSpeedReason,
     "--accelerator.fsdp.cpu_offload=true"},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
     kPresent,
     kDeepSpeedReason,
     "--accelerator.fsdp.cpu_offload=true"},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH",
     kPresent,
     kDeepSpeedReason,
     "--accelerator.fsdp.cpu_offload=true"},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH",
     kPresent,
     kDeepSpeedReason,
     "--accelerator.fsdp.cpu_offload=true"},
    {"ACCELERATE_DEEPSPEED_ZERO3_INIT", kPresent, kDeepSpeedReason, kDeepSpeedOption},
    {"ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
     kPresent,
     kDeepSpeedReason,
     "--checkpoint_format"},
    {"ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES",
     kPresent,
     kDeepSpeedReason,
     "--accelerator.fsdp.wrap_modules"},
    {"ACCELERATE_GRADIENT_CLIPPING",
     kPresent,
     "it changes gradient clipping behind the recorded configuration",
     "--optimizer.grad_clip_norm=X"},
    {"ACCELERATE_MIXED_PRECISION",
     kPrecision,
     "it differs from this run's mixed precision",
     kPrecisionOption,
     Fact::kPrecision},
    {"ACCELERATE_DOWNCAST_BF16",
     kDowncast,
     "it asks for downcasting to bfloat16, which this trainer does not do",
     kPrecisionOption,
     Fact::kPrecision},
    {"ACCELERATE_DYNAMO_BACKEND", kDynamoBackend, kDynamoReason, kDynamoOption},
    {"ACCELERATE_DYNAMO_MODE", kDynamoDetail, kDynamoReason, kDynamoOption},
    {"ACCELERATE_DYNAMO_USE_FULLGRAPH", kDynamoDetail, kDynamoReason, kDynamoOption},
    {"ACCELERATE_DYNAMO_USE_DYNAMIC", kDynamoDetail, kDynamoReason, kDynamoOption},
    {"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", kDynamoDetail, kDynamoReason, kDynamoOption},
    {"ACCELERATE_FP8_BACKEND", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL",
     kPresent,
     kFp8Reason,
     kPrecisionOption,
     Fact::kPrecision},
    {"ACCELERATE_FP8_MARGIN", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_INTERVAL", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_FORMAT", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_AMAX_HISTORY_LEN", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_AMAX_COMPUTE_ALGO", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_OVERRIDE_FPROP", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_OVERRIDE_DGRAD", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_OVERRIDE_WGRAD", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_OPT_LEVEL", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER",
     kPresent,
     kFp8Reason,
     kPrecisionOption,
     Fact::kPrecision},
    {"ACCELERATE_FP8_PAD_INNER_DIM", kPresent, kFp8Reason, kPrecisionOption, Fact::kPrecision},
    {"ACCELERATE_FP8_USE_MXFP8_BLOCK_SCALING",
     kPresent,
     kFp8Reason,
     kPrecisionOption,
     Fact::kPrecision},
    {"ACCELERATE_USE_CPU",
     kUseCpu,
     "it asks for the CPU, this run uses another device",
     kDeviceOption,
     Fact::kDevice},
    {"ACCELERATE_TORCH_DEVICE",
     kDevice,
     "it names another device than this run's",
     kDeviceOption,
     Fact::kDevice},
    {"ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE",
     kSageMakerType,
     "it chooses a SageMaker distribution that this trainer does not use",
     "unset it; data parallelism follows from the number of processes"},
    {"ACCELERATE_USE_SAGEMAKER", kHarmless, "", ""},
    {"ACCELERATE_CPU_AFFINITY", kHarmless, "", ""},
    {"ACCELERATE_DEBUG_MODE", kHarmless, "", ""},
    {"ACCELERATE_LOG_LEVEL", kHarmless, "", ""},
    {"ACCELERATE_ENABLE_RICH", kHarmless, "", ""},
    {"ACCELERATE_DEBUG_RDV_FILE", kHarmless, "", ""},
    {"ACCELERATE_NUM_PROCESSES", kHarmless, "", ""},
    {"ACCELERATE_IN_TPU_POD", kHarmless, "", ""},
    {"ACCELERATE_BYPASS_DEVICE_MAP", kHarmless, "", ""},
    {"ACCELERATE_INIT_INCLUDE_BUFFERS", kHarmless, "", ""},
    {"ACCELERATE_ALLOW_CP_STANDALONE", kHarmless, "", ""},
});

constexpr std::array kShardingCompanions = std::to_array<std::string_view>({
    "FSDP_VERSION",
    "FSDP_SHARDING_STRATEGY",
    "FSDP_RESHARD_AFTER_FORWARD",
    "FSDP_OFFLOAD_PARAMS",
    "FSDP_MIN_NUM_PARAMS",
    "FSDP_AUTO_WRAP_POLICY",
    "FSDP_TRANSFORMER_CLS_TO_WRAP",
    "FSDP_BACKWARD_PREFETCH",
    "FSDP_FORWARD_PREFETCH",
    "FSDP_STATE_DICT_TYPE",
    "FSDP_USE_ORIG_PARAMS",
    "FSDP_CPU_RAM_EFFICIENT_LOADING",
    "FSDP_SYNC_MODULE_STATES",
    "FSDP_ACTIVATION_CHECKPOINTING",
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD",
    "FSDP_IGNORED_MODULES",
});

constexpr std::array kListedCompanions = std::to_array<std::string_view>({
    "XLA_USE_BF16",
    "XLA_DOWNCAST_BF16",
    "NCCL_P2P_DISABLE",
    "NCCL_IB_DISABLE",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
});

}  // namespace

std::span<const ForeignEntry> ForeignInventory() {
  return kInventory;
}

const ForeignEntry* FindForeignEntry(std::string_view name) {
  const auto* entry = std::ranges::find(kInventory, name, &ForeignEntry::name);
  return entry == kInventory.end() ? nullptr : entry;
}

bool IsShardingCompanion(std::string_view name) {
  return name.starts_with("PARALLELISM_CONFIG_") ||
         std::ranges::find(kShardingCompanions, name) != kShardingCompanions.end();
}

bool IsListedCompanion(std::string_view name) {
  return name.starts_with("MEGATRON_LM_") ||
         std::ranges::find(kListedCompanions, name) != kListedCompanions.end();
}

}  // namespace lr::internal
