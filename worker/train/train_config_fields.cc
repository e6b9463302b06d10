// The field table of the training configuration: every flag of lr-train but --policy.*, which each
// policy declares itself. Order and names are those of the reference's train_config.json.
#include "worker/train/train_config_fields.h"

namespace lr::config {

template <>
struct EnumNames<worker::CheckpointFormat> {
  using E = worker::CheckpointFormat;
  static constexpr std::array<std::pair<E, std::string_view>, 3> kNames = {
      {{E::kSafetensors, "safetensors"},
       {E::kDcp, "dcp"},
       {E::kSafetensorsDcp, "safetensors_dcp"}}};
};

template <>
struct EnumNames<worker::MixedPrecision> {
  using E = worker::MixedPrecision;
  static constexpr std::array<std::pair<E, std::string_view>, 3> kNames = {
      {{E::kNo, "no"}, {E::kBf16, "bf16"}, {E::kFp16, "fp16"}}};
};

template <>
struct EnumNames<worker::AccumulationMode> {
  using E = worker::AccumulationMode;
  static constexpr std::array<std::pair<E, std::string_view>, 2> kNames = {
      {{E::kNosync, "nosync"}, {E::kShard, "shard"}}};
};

/// Written in the long form; fp32, bf16, fp16 and a "torch." prefix are accepted.
template <>
struct EnumNames<worker::ParameterDtype> {
  using E = worker::ParameterDtype;
  static constexpr std::array<std::pair<E, std::string_view>, 9> kNames = {
      {{E::kFloat32, "float32"},
       {E::kBfloat16, "bfloat16"},
       {E::kFloat16, "float16"},
       {E::kFloat32, "fp32"},
       {E::kBfloat16, "bf16"},
       {E::kFloat16, "fp16"},
       {E::kFloat32, "torch.float32"},
       {E::kBfloat16, "torch.bfloat16"},
       {E::kFloat16, "torch.float16"}}};
};

/// name -> {weight, type, kwargs}, in the order of the file.
template <>
struct Convert<std::vector<worker::ImageTransformsConfig::Named>> {
  using List = std::vector<worker::ImageTransformsConfig::Named>;

  static std::string TypeName() { return "map of transforms"; }

  static Json ToJson(const List& transforms) {
    Json json = Json::object();
    for (const auto& [name, one] : transforms) {
      json[name] = {{"weight", one.weight}, {"type", one.type}, {"kwargs", one.kwargs}};
    }
    return json;
  }

  static Status Read(const Value& value, List& out) {
    if (!value.json.is_object()) {
      return InvalidArgument("expected a map of transforms, not {}", ShowJson(value.json));
    }
    List read;
    for (const auto& [name, item] : value.json.items()) {
      worker::ImageTransformConfig one;
      Group group;
      group.Add("weight", one.weight, "");
      group.Add("type", one.type, "");
      group.Add("kwargs", one.kwargs, "");
      LR_TRY(group.ReadJson(item.is_object() ? item : Json::object(), UnknownKeys::kError)
                 .WithContext("'{}'", name));
      read.emplace_back(name, std::move(one));
    }
    out = std::move(read);
    return {};
  }
};

}  // namespace lr::config

namespace lr::worker {

namespace {

using config::Group;

void DescribeDataset(DatasetConfig& c, Group& g) {
  g.Add("repo_id", c.repo_id, "Dataset, as organisation/name. Required.");
  g.Add("repo_type", c.repo_type, "dataset, or bucket (streaming only).");
  g.Add("root", c.root, "Folder of the dataset itself; looked up in the local caches when null.");
  g.Add("episodes", c.episodes, "Episodes to train on; null: all.");
  g.Add("exclude_episodes", c.exclude_episodes, "Episodes left out, after `episodes`.");
  Group& t = g.Sub("image_transforms", "Random changes of the cameras' images in training.");
  t.Add("enable", c.image_transforms.enable, "Apply them.");
  t.Add("max_num_transforms", c.image_transforms.max_num_transforms, "Drawn per image at most.");
  t.Add("random_order", c.image_transforms.random_order, "Apply in random order.");
  t.Add("tfs", c.image_transforms.tfs, "Name to weight, type and arguments.");
  g.Add("revision", c.revision, "Revision in the cache; null: v3.0.");
  g.Add("use_imagenet_stats", c.use_imagenet_stats, "ImageNet mean and std for RGB cameras.");
  g.Add("video_backend", c.video_backend, "Kept for Python; ours decodes with FFmpeg in any case.");
  g.Add("return_uint8", c.return_uint8, "Kept for Python; the loop always uses uint8.");
  g.Add("depth_output_unit", c.depth_output_unit, "mm or m.");
  g.Add("streaming", c.streaming, "Read without downloading.");
  g.Add("eval_split", c.eval_split, "Part of the episodes held out for --eval_steps, [0, 1).");
}

void DescribeParallelism(ParallelismConfig& c, Group& g) {
  g.Add("dp_replicate", c.dp_replicate, "Replicas; set to the number of processes by itself.");
  g.Add("dp_shard", c.dp_shard, "Ranks that share one sharded model; -1: all processes.");
  Group& context = g.Sub("context_parallel", "Splitting one sample over ranks.");
  context.Add("ring_degree", c.context_parallel.ring_degree, "Ring attention; only 1.");
  context.Add("ulysses_degree", c.context_parallel.ulysses_degree, "Ulysses; only 1.");
  g.Add("cfg_parallel", c.cfg_parallel, "Classifier-free guidance over ranks; only 1.");
}

void DescribeFsdp(FsdpConfig& c, Group& g) {
  g.Add("reshard_after_forward", c.reshard_after_forward, "Free a unit after its forward.");
  g.Add("wrap_modules", c.wrap_modules, "Class names that form units; null: the policy's own.");
  g.Add("min_num_params", c.min_num_params, "Instead: every module above this size is a unit.");
  g.Add("cpu_offload", c.cpu_offload, "Parameters, gradients and optimizer state on the CPU.");
  g.Add("ignored_modules", c.ignored_modules, "Regular expression on module paths, not sharded.");
  Group& policy = g.Sub("mixed_precision_policy", "Dtypes of each unit; any field replaces all.");
  policy.Add("param_dtype", c.mixed_precision_policy.param_dtype, "While computing.");
  policy.Add("reduce_dtype", c.mixed_precision_policy.reduce_dtype, "Of gradient reduction.");
  policy.Add("output_dtype", c.mixed_precision_policy.output_dtype, "Of a unit's outputs.");
  policy.Add(
      "cast_forward_inputs", c.mixed_precision_policy.cast_forward_inputs, "Cast a unit's inputs.");
  policy.MarkNewer();
}

void DescribeAccelerator(AcceleratorConfig& c, Group& g) {
  g.Add("mixed_precision", c.mixed_precision, "Precision of forward and loss.");
  Group& accumulation = g.Sub("gradient_accumulation", "Several steps per optimizer update.");
  accumulation.Add("steps", c.gradient_accumulation.steps, "Steps per update.");
  accumulation.Add("mode", c.gradient_accumulation.mode, "Gradients between updates.").Newer();
  DescribeFsdp(c.fsdp, g.Sub("fsdp", "Sharding; used when --parallelism.dp_shard is not 1."));
  Group& ddp = g.Sub("ddp", "Replication; used when several processes hold the full model.");
  ddp.Add("find_unused_parameters", c.ddp.find_unused_parameters, "Allow unused parameters.");
  ddp.Add("gradient_as_bucket_view", c.ddp.gradient_as_bucket_view, "Gradients inside buckets.");
  ddp.Add("static_graph", c.ddp.static_graph, "The graph never changes.");
  Group& scaler = g.Sub("grad_scaler", "Loss scaling with fp16.");
  scaler.Add("init_scale", c.grad_scaler.init_scale, "First scale.");
  scaler.Add("growth_factor", c.grad_scaler.growth_factor, "After growth_interval good steps.");
  scaler.Add("backoff_factor", c.grad_scaler.backoff_factor, "After an overflow.");
  scaler.Add("growth_interval", c.grad_scaler.growth_interval, "Good steps before growing.");
  scaler.MarkNewer();
  Group& compile = g.Sub("compile", "Compiled modules; not available.");
  compile.Add("enabled", c.compile.enabled, "Only false.");
  compile.Add("backend", c.compile.backend, "Kept for Python.");
  compile.Add("mode", c.compile.mode, "Kept for Python.");
  compile.Add("regional", c.compile.regional, "Kept for Python.");
  Group& recompute = g.Sub("activation_checkpointing", "Recomputing activations; not available.");
  recompute.Add("mode", c.activation_checkpointing.mode, "Only none.");
}

void DescribeEval(EvalConfig& c, Group& g) {
  g.Add("n_episodes", c.n_episodes, "Episodes of lerobot-eval.");
  g.Add("batch_size", c.batch_size, "Kept for Python; 0: by itself.");
  g.Add("use_async_envs", c.use_async_envs, "Kept for Python.");
  g.Add("recording", c.recording, "Kept for Python.");
  g.Add("recording_repo_id", c.recording_repo_id, "Kept for Python.");
  g.Add("recording_private", c.recording_private, "Kept for Python.");
}

void DescribeEma(EmaConfig& c, Group& g) {
  g.Add("enable", c.enable, "Keep a moving average of the weights.");
  g.Add("decay", c.decay, "Constant decay; null: warm-up rule.");
  g.Add("update_after_step", c.update_after_step, "First update.");
  g.Add("inv_gamma", c.inv_gamma, "Warm-up rule.");
  g.Add("power", c.power, "Warm-up rule.");
  g.Add("min_decay", c.min_decay, "Lower bound.");
  g.Add("max_decay", c.max_decay, "Upper bound.");
  g.Add("use_for_eval", c.use_for_eval, "Evaluate with the average.");
}

void DescribeWandb(WandbConfig& c, Group& g) {
  g.Add("enable", c.enable, "Not available: see --trackio.enable.");
  g.Add("disable_artifact", c.disable_artifact, "Kept for Python.");
  g.Add("project", c.project, "Kept for Python.");
  g.Add("entity", c.entity, "Kept for Python.");
  g.Add("notes", c.notes, "Kept for Python.");
  g.Add("run_id", c.run_id, "Kept for Python.");
  g.Add("mode", c.mode, "Kept for Python.");
  g.Add("add_tags", c.add_tags, "Kept for Python.");
}

void DescribeTrackio(TrackioConfig& c, Group& g) {
  g.Add("enable", c.enable, "Record the run for trackio.");
  g.Add("project", c.project, "Project that the run belongs to.");
  g.Add("name", c.name, "Run name; null: --job_name.");
  g.Add("run_id", c.run_id, "Continue this run.");
  g.Add("notes", c.notes, "Free text.");
  g.Add("dir", c.dir, "Folder of the records; null: TRACKIO_DIR or the cache.");
  g.Add("space_id", c.space_id, "Not available (network).");
  g.MarkNewer();
}

void DescribePeft(PeftConfig& c, Group& g) {
  g.Add("target_modules", c.target_modules, "Which layers get an adapter.");
  g.Add("full_training_modules", c.full_training_modules, "Trained in full beside them.");
  g.Add("method_type", c.method_type, "LORA.");
  g.Add("init_type", c.init_type, "Kept for Python.");
  g.Add("r", c.r, "Rank of the adapters.");
  g.Add("lora_alpha", c.lora_alpha, "Scale; null: 8.");
}

void DescribeJob(JobConfig& c, Group& g) {
  g.Add("target", c.target, "Only null: runs start here.");
  g.Add("image", c.image, "Kept for Python.");
  g.Add("timeout", c.timeout, "Kept for Python.");
  g.Add("detach", c.detach, "Kept for Python.");
  g.Add("tags", c.tags, "Kept for Python.");
}

void DescribeSampleWeighting(SampleWeightingConfig& c, Group& g) {
  g.Add("type", c.type, "rabc or uniform.");
  g.Add("progress_path", c.progress_path, "File of progress values.");
  g.Add("head_mode", c.head_mode, "Which head.");
  g.Add("kappa", c.kappa, "Weighting strength.");
  g.Add("epsilon", c.epsilon, "Against division by zero.");
  g.Add("extra_params", c.extra_params, "Further arguments.");
}

/// Text for which null in a file means "not given".
void AddNullableText(Group& g, const char* key, std::string& text, const char* help) {
  Group::Field& field = g.Add(key, text, help);
  field.read = [&text](const config::Value& value) {
    std::optional<std::string> read;
    LR_TRY(config::Convert<std::optional<std::string>>::Read(value, read));
    text = read.value_or("");
    return Status();
  };
}

void DescribeRun(TrainConfig& c, Group& g) {
  AddNullableText(
      g, "output_dir", c.output_dir, "New folder of the run; null: outputs/train/DATE/TIME_JOB.");
  AddNullableText(g, "job_name", c.job_name, "Name of the run; null: the policy's type.");
  g.Add("resume", c.resume, "Continue from a checkpoint given by --config_path or --output_dir.");
  g.Add("seed", c.seed, "Of weights, data order and noise; null: unseeded weights.");
  g.Add("seed_offset_per_rank", c.seed_offset_per_rank, "Different noise on every rank.").Newer();
  g.Add("cudnn_deterministic", c.cudnn_deterministic, "Deterministic cuDNN, slower.");
  g.Add("tf32", c.tf32, "TF32 on NVIDIA Ampere and newer; null: library default.").Newer();
  g.Add("num_workers", c.num_workers, "Loader threads; 0: load in the training thread.");
  g.Add("batch_size", c.batch_size, "Samples per step and process.");
  g.Add("prefetch_factor", c.prefetch_factor, "Batches per loader thread in flight.");
  g.Add("persistent_workers", c.persistent_workers, "Keep loader threads across epochs.");
  g.Add("dataloader_multiprocessing_context",
        c.dataloader_multiprocessing_context,
        "Kept for Python: spawn, fork, forkserver or null.");
  g.Add("steps", c.steps, "Training steps; one micro-batch per process each.");
  g.Add("env_eval_freq", c.env_eval_freq, "Kept for Python (no simulator).");
  g.Add("log_freq", c.log_freq, "Steps per log line; 0: never.");
  g.Add("eval_steps", c.eval_steps, "Steps per held-out loss; 0: never.");
  g.Add("max_eval_samples", c.max_eval_samples, "Frames per held-out loss; 0: all.");
  g.Add("tolerance_s", c.tolerance_s, "Allowed distance of a video frame, seconds.");
  g.Add("save_checkpoint", c.save_checkpoint, "Save checkpoints.");
  g.Add("save_freq", c.save_freq, "Steps per checkpoint; 0: only the last step.");
  g.Add("keep_checkpoints",
        c.keep_checkpoints,
        "Newest checkpoints to keep, at least 2; 0: all. One that holds a file '.pinned' stays.")
      .Newer();
  g.Add("checkpoint_format", c.checkpoint_format, "The last two: sharded runs only.");
  g.Add("use_policy_training_preset",
        c.use_policy_training_preset,
        "Optimizer and schedule of the policy; --optimizer.* and --scheduler.* go on top.");
}

}  // namespace

void DescribeTrainConfig(TrainConfig& c, Group& g) {
  DescribeDataset(c.dataset, g.Sub("dataset", "What is trained on."));
  g.Add("env", c.env, "Not available (no simulator).");
  g.AddCustom(
      "policy",
      "map",
      "The policy's configuration.",
      [](const config::Value&) {
        return InvalidArgument("is a group: give its fields as --policy.FIELD=VALUE");
      },
      [&c] { return c.policy ? ToJson(*c.policy) : Json(nullptr); });
  g.Add("reward_model", c.reward_model, "Not available.");
  DescribeRun(c, g);
  g.OptionalSub<OptimizerConfig>(
      "optimizer", c.optimizer, DescribeOptimizer, "Laid over the policy's preset.");
  g.OptionalSub<SchedulerConfig>(
      "scheduler", c.scheduler, DescribeScheduler, "Learning-rate schedule.");
  DescribeParallelism(c.parallelism, g.Sub("parallelism", "How processes share the work."));
  DescribeAccelerator(c.accelerator, g.Sub("accelerator", "The engine."));
  DescribeEval(c.eval, g.Sub("eval", "Evaluation."));
  DescribeEma(c.ema, g.Sub("ema", "Moving average of the weights."));
  DescribeWandb(c.wandb, g.Sub("wandb", "Weights & Biases; not available."));
  DescribeTrackio(c.trackio, g.Sub("trackio", "Local tracker."));
  g.OptionalSub<PeftConfig>("peft", c.peft, DescribePeft, "Adapters.");
  DescribeJob(c.job, g.Sub("job", "Remote jobs; not available."));
  g.Add("save_checkpoint_to_hub", c.save_checkpoint_to_hub, "Publish every checkpoint.");
  g.OptionalSub<SampleWeightingConfig>(
      "sample_weighting", c.sample_weighting, DescribeSampleWeighting, "Weights per sample.");
  g.Add("rename_map", c.rename_map, "Dataset key to policy key.");
  g.Add("checkpoint_path", c.checkpoint_path, "Set by a resume.");
}

}  // namespace lr::worker
