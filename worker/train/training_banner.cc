// What TrainingRun tells before the first step: the configuration and the banner
// (dataset_and_training_loop.md H.2).
#include <spdlog/spdlog.h>

#include "common/base/text.h"
#include "worker/train/console.h"
#include "worker/train/training_run.h"

namespace lr::worker {

namespace {

int64_t CountElements(const torch::nn::Module& module, bool trainable_only) {
  int64_t count = 0;
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad() || !trainable_only) {
      count += parameter.numel();
    }
  }
  return count;
}

}  // namespace

void TrainingRun::PrintConfiguration() const {
  if (is_main()) {
    SPDLOG_INFO("{}", DumpConfigFile(ToJson(config_)));
    for (const ConfigNote& note : parsed_.notes) {
      if (note.level == ConfigNote::Level::kWarning) {
        SPDLOG_WARN("{}", note.text);
      } else {
        SPDLOG_INFO("{}", note.text);
      }
    }
    SPDLOG_INFO("{}", Highlighted("Logs will be saved locally."));
  }
}

void TrainingRun::PrintBanner() const {
  const int64_t accumulation = config_.accelerator.gradient_accumulation.steps;
  const int64_t workers = topology_.dp_world_size();
  const int64_t effective = config_.batch_size * workers * accumulation;
  const auto with_short = [](int64_t value) {
    return fmt::format("{} ({})", value, ShortNumber(static_cast<double>(value)));
  };
  SPDLOG_INFO("{} {}", Highlighted("Output dir:"), config_.output_dir);
  SPDLOG_INFO("cfg.steps={}", with_short(config_.steps));
  SPDLOG_INFO("dataset.num_frames={}", with_short(dataset_->size()));
  SPDLOG_INFO("dataset.num_episodes={}", dataset_->num_episodes());
  SPDLOG_INFO(
      "Effective batch size: {} x {} dp workers x {} grad accum = {} (topology: dp_replicate={}, "
      "dp_shard={})",
      config_.batch_size,
      workers,
      accumulation,
      effective,
      topology_.dp_replicate,
      topology_.dp_shard);
  if (accumulation > 1 && topology_.uses_sharded_engine) {
    SPDLOG_INFO("Gradients between updates: {}",
                accelerator_->options().reduces_every_pass
                    ? "reduced into the shards by every pass (mode=shard)"
                    : "whole on every rank, reduced by the last pass (mode=nosync)");
  }
  SPDLOG_INFO("num_learnable_params={}", with_short(CountElements(*policy_, true)));
  SPDLOG_INFO("num_total_params={}", with_short(CountElements(*policy_, false)));
  if (workers > 1) {
    SPDLOG_INFO(
        "{} samples per optimizer update; --steps={} cover {:.1f} epochs. Learning rate and steps "
        "are not scaled "
        "with the number of workers.",
        effective,
        config_.steps,
        ProgressAt(config_.steps, samples_per_step(), dataset_->size(), dataset_->num_episodes())
            .epochs);
  }
  SPDLOG_INFO("Start offline training on a fixed dataset, with effective batch size: {}",
              effective);
}

}  // namespace lr::worker
