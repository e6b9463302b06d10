#include "launcher/cli/refused_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

using enum ValueKind;
using enum Refusal;

constexpr std::string_view kFlagWords = "false,0,no";
constexpr std::string_view kDeepSpeed = "--parallelism.dp_shard=N (trainer) shards like ZeRO 3";
constexpr std::string_view kMegatron = "--parallelism.dp_shard=N (trainer)";
constexpr std::string_view kFsdp = "--accelerator.fsdp.* (trainer)";
constexpr std::string_view kDegrees = "--parallelism.* (trainer)";
constexpr std::string_view kDynamo = "leave it out: the trainer compiles nothing";
constexpr std::string_view kFp8 =
    "--accelerator.mixed_precision=no|bf16|fp16 (trainer); there is no fp8";
constexpr std::string_view kTpu = "leave it out: TPUs are not supported";
constexpr std::string_view kCloud = "leave it out: start lr-launch on the machine itself";
constexpr std::string_view kOffload = "--accelerator.fsdp.cpu_offload=true (trainer)";

constexpr std::array kRefused = std::to_array<RefusedOption>({
    // torchrun
    {"--logs-specs",
     "",
     kValue,
     kLater,
     "Python plug-ins cannot be loaded here; use --log-dir",
     "",
     ""},
    // accelerate launch, launcher part
    {"--mpirun-hostfile",
     "",
     kValue,
     kElsewhere,
     "start one lr-launch per node by the scheduler (srun, mpirun)",
     "",
     ""},
    {"--mpirun-ccl", "", kValue, kElsewhere, "leave it out: nothing is started by mpirun", "0", ""},
    {"--ipex", "", kFlag, kElsewhere, "leave it out: no extension is loaded", kFlagWords, ""},
    {"--use-xpu", "", kFlag, kElsewhere, "give --nproc-per-node=xpu", kFlagWords, ""},
    // accelerate launch, engine part (L-12)
    {"--config-file",
     "",
     kValue,
     kEngine,
     "configuration files are not read; give --parallelism.* and --accelerator.* (trainer)",
     "",
     ""},
    {"--mixed-precision",
     "",
     kValue,
     kEngine,
     "--accelerator.mixed_precision=no|bf16|fp16 (trainer)",
     "no",
     ""},
    {"--gradient-accumulation-steps",
     "",
     kValue,
     kEngine,
     "--accelerator.gradient_accumulation.steps=K (trainer)",
     "",
     ""},
    {"--gradient-clipping", "", kValue, kEngine, "--optimizer.grad_clip_norm=X (trainer)", "", ""},
    {"--use-fsdp", "", kFlag, kEngine, "--parallelism.dp_shard=N (trainer)", kFlagWords, ""},
    {"--fsdp-reshard-after-forward",
     "",
     kValue,
     kEngine,
     "--accelerator.fsdp.reshard_after_forward=BOOL (trainer)",
     "",
     ""},
    {"--fsdp-transformer-layer-cls-to-wrap",
     "",
     kValue,
     kEngine,
     "--accelerator.fsdp.wrap_modules=[...] (trainer)",
     "",
     ""},
    {"--fsdp-min-num-params",
     "",
     kValue,
     kEngine,
     "--accelerator.fsdp.min_num_params=N (trainer)",
     "",
     ""},
    {"--fsdp-offload-params", "", kValue, kEngine, kOffload, kFlagWords, ""},
    {"--fsdp-*", "", kValue, kEngine, kFsdp, "", ""},
    {"--use-parallelism-config", "", kFlag, kEngine, kDegrees, kFlagWords, ""},
    {"--parallelism-config-*", "", kValue, kEngine, kDegrees, "", ""},
    {"--dynamo-backend", "", kValue, kEngine, kDynamo, "no", ""},
    {"--dynamo-mode", "", kValue, kEngine, kDynamo, "default", ""},
    {"--dynamo-use-fullgraph", "", kFlag, kEngine, kDynamo, kFlagWords, ""},
    {"--dynamo-use-dynamic", "", kFlag, kEngine, kDynamo, kFlagWords, ""},
    {"--dynamo-use-regional-compilation", "", kFlag, kEngine, kDynamo, kFlagWords, ""},
    {"--use-deepspeed", "", kFlag, kEngine, kDeepSpeed, kFlagWords, ""},
    {"--zero-stage", "", kValue, kEngine, kDeepSpeed, "", ""},
    {"--zero3-*", "", kValue, kEngine, kDeepSpeed, "", ""},
    {"--offload-*", "", kValue, kEngine, kOffload, "none", ""},
    {"--deepspeed-*", "", kValue, kEngine, kDeepSpeed, "", ""},
    {"--use-megatron-lm", "", kFlag, kEngine, kMegatron, kFlagWords, ""},
    {"--megatron-lm-*", "", kValue, kEngine, kMegatron, "", ""},
    {"--fp8-*", "", kValue, kEngine, kFp8, "", ""},
    {"--tpu", "", kFlag, kEngine, kTpu, kFlagWords, ""},
    {"--tpu-use-cluster", "", kFlag, kEngine, kTpu, kFlagWords, ""},
    {"--tpu-use-sudo", "", kFlag, kEngine, kTpu, kFlagWords, ""},
    {"--tpu-*", "", kValue, kEngine, kTpu, "", ""},
    {"--vm", "", kValue, kEngine, kTpu, "", ""},
    {"--env", "", kValue, kEngine, "export the variable in the shell", "", ""},
    {"--downcast-bf16",
     "",
     kFlag,
     kEngine,
     "--accelerator.mixed_precision=bf16 (trainer)",
     kFlagWords,
     ""},
    {"--main-training-function",
     "",
     kValue,
     kEngine,
     "leave it out: whole programs are started",
     "",
     ""},
    {"--aws-*", "", kValue, kEngine, kCloud, "", ""},
});

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(
      lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool Matches(const RefusedOption& option, std::string_view name) {
  if (option.name.ends_with('*')) {
    return name.starts_with(option.name.substr(0, option.name.size() - 1));
  }
  return name == option.name || (!option.short_name.empty() && name == option.short_name);
}

}  // namespace

std::span<const RefusedOption> RefusedOptions() {
  return kRefused;
}

const RefusedOption* FindRefused(std::string_view name) {
  const auto* option =
      std::ranges::find_if(kRefused, [&](const RefusedOption& row) { return Matches(row, name); });
  return option == kRefused.end() ? nullptr : option;
}

bool IsNeutral(const RefusedOption& option, std::string_view value) {
  if (option.neutral.empty()) {
    return false;
  }
  const std::vector<std::string> words = Split(option.neutral, ',');
  return std::ranges::find(words, Lower(value)) != words.end();
}

}  // namespace lr::launcher
