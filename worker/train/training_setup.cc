// The steps of TrainingRun before the first batch: peers, output folder, dataset, policy,
// processors, engine, loader.
#include <filesystem>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <spdlog/spdlog.h>

#include "common/base/text.h"
#include "worker/accelerator/device_probe.h"
#include "worker/accelerator/engine_options.h"
#include "worker/accelerator/status_error.h"
#include "worker/comm/process_groups.h"
#include "worker/data/dataset_root.h"
#include "worker/data/episode_selection.h"
#include "worker/data/sampler.h"
#include "worker/parallel/sharded_engine.h"
#include "worker/policies/policy_factory.h"
#include "worker/policies/policy_features.h"
#include "worker/precision/tf32.h"
#include "worker/train/console.h"
#include "worker/train/train_config_check.h"
#include "worker/train/training_run.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// dataset key -> tensor statistics under the policy's names.
Statistics Renamed(const Statistics& stats, const RenameMap& names) {
  Statistics renamed;
  for (const auto& [key, value] : stats) {
    const auto it = names.find(key);
    renamed[it == names.end() ? key : it->second] = value;
  }
  return renamed;
}

}  // namespace

Status TrainingRun::MeetTheOtherRanks() {
  LR_ASSIGN(device_,
            ChooseDevice(config_.policy->device,
                         ProbeDevices(),
                         environment_.local_rank,
                         environment_.world_size));
  for (const std::string& note : device_.notes) {
    SPDLOG_INFO("{}", note);
  }
  for (const std::string& warning : device_.warnings) {
    SPDLOG_WARN("{}", warning);
  }
  config_.policy->device = device_.name;

  LR_ASSIGN(const ResolvedTopology resolved,
            ResolveTopology({.parallelism = config_.parallelism,
                             .world_size = environment_.world_size,
                             .resumed = config_.resume,
                             .dp_replicate_given = parsed_.Given("parallelism.dp_replicate")}));
  topology_ = resolved.topology;
  config_.parallelism.dp_replicate = topology_.dp_replicate;
  config_.parallelism.dp_shard = topology_.dp_shard;
  LR_TRY(CheckCheckpointFormat(config_.checkpoint_format, topology_.sharded()));
  if (!resolved.note.empty()) {
    SPDLOG_INFO("{}", resolved.note);
  }

  LR_ASSIGN(
      accelerator_,
      Accelerator::Create(MakeEngineOptions(config_.accelerator, topology_, DeviceOf(device_)),
                          environment_));
  return {};
}

Status TrainingRun::AgreeOnOutputDirectory() {
  if (parsed_.output_dir_is_default) {  // made from the clock: ranks may disagree by a second
    LR_ASSIGN(config_.output_dir, accelerator_->control().BroadcastFromMain(config_.output_dir));
  }
  link_ = ControlLink::Start(environment_.control_socket,
                             environment_.rank,
                             fs::absolute(config_.output_dir).string(),
                             inbox_);
  link_->ObserveCollectives([accelerator = accelerator_.get()] {  // outlives the link
    std::vector<CollectivePosition> positions;
    for (const GroupSequence& one : accelerator->collectives_entered()) {
      positions.push_back({.group = one.group, .entered = one.entered});
    }
    return positions;
  });
  link_->SetPhase(Phase::kInit);
  if (!is_main()) {
    return {};
  }
  LR_ASSIGN(output_lock_, LockOutputDirectory(config_.output_dir, environment_.run_id));
  return {};
}

Status TrainingRun::OpenDataset() {
  if (config_.seed) {
    at::manual_seed(static_cast<uint64_t>(*config_.seed));
  }
  at::globalContext().setDeterministicCuDNN(config_.cudnn_deterministic);
  at::globalContext().setBenchmarkCuDNN(!config_.cudnn_deterministic);
  ApplyTf32(config_.tf32);
  if (config_.tf32 && accelerator_->device().is_cuda()) {
    SPDLOG_INFO("{}", DescribeTf32());
  }
  SPDLOG_INFO("Creating dataset");
  const DatasetConfig& wanted = config_.dataset;
  LR_ASSIGN(
      const fs::path root,
      FindDatasetRoot(wanted.repo_id, wanted.root, wanted.revision, RootSurroundings::System()));
  LR_ASSIGN(const std::shared_ptr<const DatasetMetadata> metadata,
            DatasetMetadata::Open(root, wanted.repo_id));
  LR_ASSIGN(const EpisodeSelection selection,
            SelectEpisodes(static_cast<int64_t>(metadata->episodes().size()),
                           wanted.episodes,
                           wanted.exclude_episodes));
  for (const std::string& warning : selection.warnings) {
    SPDLOG_WARN("{}", warning);
  }
  std::vector<std::string> first_tasks;
  for (const int64_t episode : selection.episodes) {
    const std::vector<std::string>& tasks =
        metadata->episodes()[static_cast<size_t>(episode)].tasks;
    first_tasks.push_back(tasks.empty() ? "" : tasks.front());
  }
  LR_ASSIGN(const HeldOutSplit split,
            SplitHeldOut(selection.episodes, first_tasks, wanted.eval_split));
  if (!split.log_line.empty()) {
    SPDLOG_INFO("{}", split.log_line);
  }
  DatasetOptions options;
  options.episodes = split.train;
  options.windows =
      MakeWindows(metadata->features(), config_.policy->Windows(), config_.rename_map);
  options.tolerance_s = config_.tolerance_s;
  options.use_imagenet_stats = wanted.use_imagenet_stats;
  options.depth_in_millimetres = wanted.depth_output_unit == "mm";
  LR_ASSIGN(dataset_, LeRobotDataset::Open(metadata, options));
  if (!split.held_out.empty()) {
    options.episodes = split.held_out;
    LR_ASSIGN(held_out_, LeRobotDataset::Open(metadata, options));
  }
  return {};
}

PolicyOptions TrainingRun::WeightsToLoad() const {
  PolicyOptions options;
  options.load_backbone_weights = parsed_.weights_dir.empty();
  return options;
}

Status TrainingRun::FetchWeights() {
  // One process per machine fetches; the others wait in the agreement behind this step.
  return environment_.local_rank == 0 ? FetchPolicyFiles(*config_.policy, WeightsToLoad())
                                      : Status();
}

Status TrainingRun::BuildPolicy() {
  SPDLOG_INFO("Creating policy");
  LR_ASSIGN(const std::vector<std::string> lines,
            FillFeaturesFromDataset(*config_.policy, dataset_->features(), config_.rename_map));
  for (const std::string& line : lines) {
    SPDLOG_INFO("{}", line);
  }
  LR_TRY(config_.policy->Validate());
  LR_ASSIGN(policy_, CreatePolicy(*config_.policy, WeightsToLoad()));
  return {};
}

Status TrainingRun::BuildProcessors() {
  ProcessorInputs inputs;
  inputs.input_features = config_.policy->input_features;
  inputs.output_features = config_.policy->output_features;
  inputs.norm_map = config_.policy->normalization_mapping;
  inputs.stats = Renamed(dataset_->stats(), config_.rename_map);
  inputs.device = device_.name;
  inputs.rename_map = config_.rename_map;
  LR_TRY(CheckNormalization(inputs.input_features, inputs.norm_map, inputs.stats));
  LR_TRY(CheckNormalization(inputs.output_features, inputs.norm_map, inputs.stats));
  for (const std::string& warning :
       ConstantDimensions(inputs.input_features, inputs.norm_map, inputs.stats)) {
    SPDLOG_WARN("{}", warning);
  }
  const fs::path folder = resume_ ? resume_->pretrained_model() : fs::path(parsed_.weights_dir);
  if (!folder.empty()) {
    Result<Pipeline> pre =
        LoadPipeline(folder, kPreprocessorName, PreprocessorOverrides(inputs, config_.resume));
    Result<Pipeline> post =
        LoadPipeline(folder, kPostprocessorName, PostprocessorOverrides(inputs, config_.resume));
    if (pre.ok() && post.ok()) {
      preprocessor_ = std::move(pre).value();
      postprocessor_ = std::move(post).value();
      return {};
    }
    const Status failed = pre.ok() ? post.status() : pre.status();
    if (failed.code() != StatusCode::kNotFound) {
      return failed;
    }
    SPDLOG_WARN(
        "{}; the processors are rebuilt from the configuration and the dataset's statistics",
        failed.message());
  }
  preprocessor_ = MakePreprocessor(inputs);
  postprocessor_ = MakePostprocessor(inputs);
  return {};
}

Status TrainingRun::PrepareModel() {
  LR_ASSIGN(model_, Caught([&] { return accelerator_->prepare(policy_); }));
  if (const ShardedEngine* engine = accelerator_->sharded()) {
    for (const std::string& warning : engine->warnings()) {
      SPDLOG_WARN("{}", warning);
    }
    SPDLOG_INFO("Sharding units: {} blocks of {} and the root",
                engine->unit_names().size() - 1,
                Join(accelerator_->options().fsdp.wrap.class_names, ", "));
  }
  SPDLOG_INFO("{}", DescribePrecision(accelerator_->options()));
  return {};
}

std::vector<OptimizerGroup> TrainingRun::ParametersByGroup() const {
  if (config_.use_policy_training_preset) {
    return MakeOptimizerGroups(*policy_);
  }
  // Without the preset the policy's own groups and rates do not apply: one group of everything.
  OptimizerGroup all;
  for (const auto& item : policy_->named_parameters()) {
    if (item.value().requires_grad()) {
      all.names.push_back(item.key());
      all.params.push_back(item.value());
    }
  }
  std::vector<OptimizerGroup> groups;
  groups.push_back(std::move(all));
  return groups;
}

Status TrainingRun::BuildOptimizerAndSchedule() {
  SPDLOG_INFO("Creating optimizer and scheduler");
  LR_ASSIGN(std::unique_ptr<Optimizer> optimizer,
            Optimizer::Create(*config_.optimizer, ParametersByGroup()));
  LR_ASSIGN(optimizer_, Caught([&] { return accelerator_->prepare(std::move(optimizer)); }));
  if (config_.scheduler) {
    LR_ASSIGN(const ScheduleFunction schedule, MakeSchedule(*config_.scheduler, config_.steps));
    scheduler_.emplace(optimizer_->unwrapped(), schedule);
    prepared_scheduler_.emplace(accelerator_->prepare(*scheduler_));
  }
  return {};
}

Status TrainingRun::StartLoader() {
  LR_ASSIGN(
      EpisodeAwareSampler sampler,
      EpisodeAwareSampler::Create(dataset_->ranges(), 0, config_.policy->drop_n_last_frames()));
  for (const std::string& warning : sampler.warnings()) {
    SPDLOG_WARN("{}", warning);
  }
  sharding_ = {sampler.size(), config_.batch_size, topology_.dp_world_size()};
  BatchSchedule::Options options;
  options.sharding = sharding_;
  options.rank = environment_.rank;
  options.seed = static_cast<uint64_t>(config_.seed.value_or(0));
  options.start = StartOfData();
  if (config_.batch_size * topology_.dp_world_size() > sampler.size()) {
    SPDLOG_WARN("batch_size x ranks = {} exceeds the {} frames: every epoch repeats samples",
                config_.batch_size * topology_.dp_world_size(),
                sampler.size());
  }
  LR_ASSIGN(BatchSchedule schedule, BatchSchedule::Create(options));
  LR_ASSIGN(loader_,
            DataLoader::Create(
                dataset_,
                TrainingSource(std::move(schedule), std::move(sampler)),
                {config_.num_workers, config_.prefetch_factor, device_.backend == Backend::kCuda}));
  agreement_.emplace(accelerator_->control(), inbox_);
  window_.emplace(device_.backend == Backend::kCuda, accelerator_->scaler() != nullptr);
  progress_.emplace(config_.steps - step_, is_main() && ProgressBarWanted());
  return {};
}

}  // namespace lr::worker
