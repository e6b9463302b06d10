#include "worker/train/train_config_check.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"
#include "worker/accelerator/accelerator_config_check.h"

namespace lr::worker {

namespace {

Status AtLeast(const char* flag, int64_t value, int64_t limit) {
  return value >= limit ? Status()
                        : InvalidArgument("--{}={}: must be at least {}", flag, value, limit);
}

Status CheckLoop(const TrainConfig& c) {
  LR_TRY(AtLeast("steps", c.steps, 1));
  LR_TRY(AtLeast("batch_size", c.batch_size, 1));
  LR_TRY(AtLeast("num_workers", c.num_workers, 0));
  LR_TRY(AtLeast("prefetch_factor", c.prefetch_factor, 1));
  LR_TRY(AtLeast("keep_checkpoints", c.keep_checkpoints, 0));
  LR_TRY(AtLeast("max_eval_samples", c.max_eval_samples, 0));
  if (!(c.tolerance_s > 0.0) || !std::isfinite(c.tolerance_s)) {
    return InvalidArgument("--tolerance_s={}: must be a number above 0", c.tolerance_s);
  }
  const std::string context = c.dataloader_multiprocessing_context.value_or("spawn");
  if (context != "fork" && context != "spawn" && context != "forkserver") {
    return InvalidArgument(
        "--dataloader_multiprocessing_context={}: must be fork, spawn, forkserver or null",
        context);
  }
  return {};
}

Status CheckEpisodes(const DatasetConfig& dataset) {
  if (!dataset.episodes) {
    return {};
  }
  std::set<int64_t> seen;
  for (const int64_t episode : *dataset.episodes) {
    if (episode < 0) {
      return InvalidArgument("--dataset.episodes: {} is negative", episode);
    }
    if (!seen.insert(episode).second) {
      return InvalidArgument("--dataset.episodes: {} is listed twice", episode);
    }
  }
  return {};
}

Status OneOf(const char* flag, const std::string& value, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), value) != words.end()
             ? Status()
             : InvalidArgument("--{}={}: must be one of {}", flag, value, Join(words, ", "));
}

Status CheckDatasetWords(const DatasetConfig& dataset) {
  LR_TRY(OneOf("dataset.repo_type", dataset.repo_type, {"dataset", "bucket"}));
  LR_TRY(OneOf(
      "dataset.video_backend", dataset.video_backend, {"torchcodec", "pyav", "video_reader"}));
  return OneOf("dataset.depth_output_unit", dataset.depth_output_unit, {"mm", "m"});
}

Status CheckDataset(const TrainConfig& c) {
  const DatasetConfig& dataset = c.dataset;
  if (dataset.repo_id.empty()) {
    return InvalidArgument(
        "--dataset.repo_id is required: the name of the dataset, such as "
        "lerobot/pusht (with --dataset.root=FOLDER for one on this machine)");
  }
  LR_TRY(CheckDatasetWords(dataset));
  if (dataset.repo_type == "bucket" && (!dataset.streaming || dataset.eval_split > 0.0)) {
    return InvalidArgument(
        "--dataset.repo_type=bucket works only with --dataset.streaming=true and without "
        "--dataset.eval_split");
  }
  if (!(dataset.eval_split >= 0.0 && dataset.eval_split < 1.0)) {
    return InvalidArgument("--dataset.eval_split={}: must be at least 0 and below 1",
                           dataset.eval_split);
  }
  if (c.eval_steps > 0 && dataset.eval_split == 0.0) {
    return InvalidArgument(
        "--eval_steps={} needs held-out episodes: set --dataset.eval_split, "
        "for example to 0.1",
        c.eval_steps);
  }
  return CheckEpisodes(dataset);
}

Status CheckPolicy(const TrainConfig& c, const std::set<std::string>& given) {
  if (!c.policy) {
    return InvalidArgument("no policy: give --policy.type=TYPE or --policy.path=FOLDER");
  }
  if (!c.rename_map.empty() && !c.policy->pretrained_path) {
    return InvalidArgument(
        "--rename_map fits a dataset to a pretrained policy: it needs "
        "--policy.path");
  }
  if (given.count("policy.push_to_hub") > 0 && c.policy->push_to_hub && !c.policy->repo_id) {
    return InvalidArgument(
        "--policy.push_to_hub=true needs a target: give --policy.repo_id=NAME, "
        "or set --policy.push_to_hub=false");
  }
  if (c.save_checkpoint_to_hub && !c.policy->repo_id) {
    return InvalidArgument("--save_checkpoint_to_hub=true needs --policy.repo_id=NAME");
  }
  return c.policy->Validate();
}

Status CheckScheduler(const SchedulerConfig& s) {
  if (s.type.empty()) {
    return InvalidArgument("--scheduler.* needs --scheduler.type");
  }
  const bool warm_up_optional = s.type == "diffuser";
  if (!s.num_warmup_steps && !warm_up_optional) {
    return InvalidArgument("--scheduler.type={} needs --scheduler.num_warmup_steps", s.type);
  }
  LR_TRY(AtLeast("scheduler.num_warmup_steps", s.num_warmup_steps.value_or(0), 0));
  if (s.type == "cosine_decay_with_warmup") {
    LR_TRY(AtLeast("scheduler.num_decay_steps", s.num_decay_steps, 1));
    if (!(s.peak_lr > 0.0)) {
      return InvalidArgument("--scheduler.peak_lr={}: must be above 0", s.peak_lr);
    }
  }
  return AtLeast("scheduler.num_vqvae_training_steps", s.num_vqvae_training_steps, 0);
}

Status CheckOptimizer(const TrainConfig& c) {
  if (!c.optimizer) {
    return InvalidArgument("--use_policy_training_preset=false needs --optimizer.type");
  }
  if (!(c.optimizer->lr >= 0.0) || !std::isfinite(c.optimizer->lr)) {
    return InvalidArgument("--optimizer.lr={}: must be a number of at least 0", c.optimizer->lr);
  }
  if (!(c.optimizer->grad_clip_norm >= 0.0)) {
    return InvalidArgument("--optimizer.grad_clip_norm={}: must be at least 0 (0: no clipping)",
                           c.optimizer->grad_clip_norm);
  }
  return c.scheduler ? CheckScheduler(*c.scheduler) : Status();
}

Status CheckEma(const EmaConfig& ema) {
  const EmaConfig untouched;
  const bool limits_changed =
      ema.min_decay != untouched.min_decay || ema.max_decay != untouched.max_decay;
  if (ema.decay && limits_changed) {
    return InvalidArgument(
        "--ema.decay={} stands for equal limits: leave out --ema.min_decay and --ema.max_decay",
        *ema.decay);
  }
  const double low = ema.decay.value_or(ema.min_decay);
  const double high = ema.decay.value_or(ema.max_decay);
  if (!(low >= 0.0 && low <= high && high <= 1.0)) {
    return InvalidArgument(
        "--ema: 0 <= min_decay={} <= max_decay={} <= 1 does not hold", low, high);
  }
  if (!(ema.inv_gamma > 0.0) || !(ema.power > 0.0)) {
    return InvalidArgument(
        "--ema.inv_gamma={} and --ema.power={} must be above 0", ema.inv_gamma, ema.power);
  }
  return AtLeast("ema.update_after_step", ema.update_after_step, 0);
}

}  // namespace

Status CheckCheckpointFormat(CheckpointFormat format, bool sharded) {
  if (format == CheckpointFormat::kSafetensors || sharded) {
    return {};
  }
  return InvalidArgument(
      "--checkpoint_format={} requires a sharded run (--parallelism.dp_shard != 1); non-sharded "
      "checkpoints are always safetensors",
      format == CheckpointFormat::kDcp ? "dcp" : "safetensors_dcp");
}

Status CheckTrainConfig(const TrainConfig& config, const std::set<std::string>& given) {
  LR_TRY(CheckPolicy(config, given));
  LR_TRY(CheckDataset(config));
  LR_TRY(CheckLoop(config));
  LR_TRY(CheckOptimizer(config));
  LR_TRY(CheckAcceleratorConfig(
      config.accelerator, config.parallelism, /*on_cpu=*/config.policy->device == "cpu"));
  LR_TRY(CheckEma(config.ema));
  return CheckCheckpointFormat(config.checkpoint_format, config.parallelism.dp_shard != 1);
}

std::vector<std::string> TrainConfigWarnings(const TrainConfig& config) {
  std::vector<std::string> warnings;
  const int64_t accumulation = config.accelerator.gradient_accumulation.steps;
  if (config.save_checkpoint && config.save_freq > 0 && config.save_freq % accumulation != 0) {
    warnings.push_back(fmt::format(
        "save_freq={} is not a multiple of accelerator.gradient_accumulation.steps={}: gradients "
        "pending at a checkpoint are not saved",
        config.save_freq,
        accumulation));
  }
  const FsdpConfig& fsdp = config.accelerator.fsdp;
  if (config.parallelism.dp_shard == 1 &&
      (fsdp.wrap_modules || fsdp.min_num_params || fsdp.cpu_offload || fsdp.ignored_modules ||
       !fsdp.reshard_after_forward || !fsdp.mixed_precision_policy.empty())) {
    warnings.emplace_back(
        "accelerator.fsdp.* has no effect without sharding: set --parallelism.dp_shard");
  }
  if (config.policy && config.policy->use_amp &&
      config.accelerator.mixed_precision == MixedPrecision::kNo) {
    warnings.emplace_back(
        "policy.use_amp=true has no effect on training; mixed precision is set by "
        "--accelerator.mixed_precision");
  }
  return warnings;
}

}  // namespace lr::worker
