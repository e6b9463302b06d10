#include "worker/train/unsupported.h"

#include "common/base/text.h"

namespace lr::worker {

namespace {

/// Collects "--flag=value …" sentences.
class Refusals {
 public:
  template <typename Value>
  void Add(bool refused, const char* flag, const Value& value, const char* sentence) {
    if (refused) {
      lines_.push_back(fmt::format("--{}={} {}", flag, value, sentence));
    }
  }

  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

std::string Shown(const Json& json) {
  return DumpPythonJson(json, -1);
}

constexpr const char* kNotBuilt = "is specified but not built yet; leave it out";

void RefusePrecision(const TrainConfig& c, Refusals& out) {
  const AcceleratorConfig& engine = c.accelerator;
  out.Add(engine.compile.enabled, "accelerator.compile.enabled", true, kNotBuilt);
  out.Add(engine.activation_checkpointing.mode != "none",
          "accelerator.activation_checkpointing.mode",
          engine.activation_checkpointing.mode,
          "is specified but not built yet; use none");
}

void RefuseData(const TrainConfig& c, Refusals& out) {
  out.Add(c.dataset.streaming,
          "dataset.streaming",
          true,
          "is specified but not built yet; download the dataset and read it from --dataset.root");
  out.Add(c.dataset.repo_type != "dataset",
          "dataset.repo_type",
          c.dataset.repo_type,
          "needs streaming, which is not built yet; use dataset");
  out.Add(c.dataset.image_transforms.enable,
          "dataset.image_transforms.enable",
          true,
          "is specified but not built yet; images are used as recorded");
  out.Add(c.sample_weighting.has_value(), "sample_weighting.*", "...", kNotBuilt);
  out.Add(c.seed_offset_per_rank,
          "seed_offset_per_rank",
          true,
          "is specified but not built yet; all ranks draw the same random stream");
}

void RefusePolicy(const TrainConfig& c, Refusals& out) {
  out.Add(!c.env.is_null(),
          "env",
          Shown(c.env),
          "names a simulator, and this build has none; evaluate on recorded episodes with "
          "--dataset.eval_split and --eval_steps");
  out.Add(!c.reward_model.is_null(),
          "reward_model",
          Shown(c.reward_model),
          "is not available in this build; train a policy with --policy.type");
  out.Add(c.peft.has_value(),
          "peft.*",
          "...",
          "is specified but not built yet; train all weights with --policy.path alone");
  out.Add(c.policy && c.policy->use_peft,
          "policy.use_peft",
          true,
          "needs adapters, which are not built yet; start from a folder with model.safetensors");
  out.Add(c.ema.enable, "ema.enable", true, kNotBuilt);
  out.Add(c.optimizer && c.optimizer->type == "multi_adam",
          "optimizer.type",
          "multi_adam",
          "is specified but not built yet; use adam, adamw, sgd or xvla-adamw");
}

void RefuseServices(const TrainConfig& c, Refusals& out) {
  out.Add(c.job.target && *c.job.target != "local",
          "job.target",
          c.job.target.value_or(""),
          "submits to a cloud service, which this build does not; start the run with lr-launch");
  out.Add(c.wandb.enable,
          "wandb.enable",
          true,
          "is not available: there is no native client; use --trackio.enable=true, which records "
          "the run on this machine");
  out.Add(c.trackio.enable,
          "trackio.enable",
          true,
          "is specified but not built yet; the metrics are in the log");
  out.Add(c.trackio.space_id.has_value(),
          "trackio.space_id",
          c.trackio.space_id.value_or(""),
          "needs the network; runs are recorded on this machine only");
  out.Add(c.save_checkpoint_to_hub && c.checkpoint_format == CheckpointFormat::kDcp,
          "save_checkpoint_to_hub",
          true,
          "publishes whole models, and checkpoint_format=dcp saves shards alone; use "
          "--checkpoint_format=safetensors_dcp");
}

}  // namespace

std::vector<std::string> UnsupportedSettings(const TrainConfig& config) {
  Refusals refusals;
  RefusePrecision(config, refusals);
  RefuseData(config, refusals);
  RefusePolicy(config, refusals);
  RefuseServices(config, refusals);
  return refusals.Take();
}

Status CheckSupported(const TrainConfig& config) {
  const std::vector<std::string> sentences = UnsupportedSettings(config);
  return sentences.empty() ? Status() : InvalidArgument("{}", Join(sentences, "\n"));
}

}  // namespace lr::worker
