// The steps of TrainingRun that read and write checkpoints (checkpoints.md 3.3, 3.12).
#include "worker/train/checkpointing.h"

#include <filesystem>
#include <utility>

#include <spdlog/spdlog.h>

#include "worker/checkpoint/model_file.h"
#include "worker/checkpoint/optimizer_file.h"
#include "worker/checkpoint/resume_source.h"
#include "worker/checkpoint/rng_state.h"
#include "worker/checkpoint/scheduler_file.h"
#include "worker/train/training_run.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// States before the JSON that names them, as the reference writes them.
void AddPipeline(const Pipeline& pipeline, std::vector<SideFile>& files) {
  PipelineFiles parts = pipeline.Serialize();
  for (auto& [name, state] : parts.states) {
    files.push_back({name, NamedTensors(state.begin(), state.end())});
  }
  files.push_back({parts.json_name, std::move(parts.json)});
}

std::string PrecisionName(MixedPrecision precision) {
  constexpr const char* kNames[] = {"no", "bf16", "fp16"};
  return kNames[static_cast<int>(precision)];
}

}  // namespace

Result<DirectoryLock> LockOutputDirectory(const std::string& output_dir,
                                          const std::string& run_id) {
  std::error_code error;
  fs::create_directories(output_dir, error);
  if (error) {
    return PermissionDenied("--output_dir: cannot create '{}': {}", output_dir, error.message());
  }
  return DirectoryLock::Acquire(output_dir, ThisProcess(run_id))
      .WithContext("--output_dir={}", output_dir);
}

TrainingStep TrainingRun::DescribeStep() const {
  TrainingStep now;
  now.step = step_;
  now.dp_world_size = topology_.dp_world_size();
  now.batch_size = config_.batch_size;
  now.grad_accum_steps = config_.accelerator.gradient_accumulation.steps;
  now.parallelism = SavedTopology{topology_.dp_replicate, topology_.dp_shard, 1, 1};
  now.mixed_precision = PrecisionName(config_.accelerator.mixed_precision);
  now.dataset_frames = dataset_->size();
  now.dataset_episodes = dataset_->num_episodes();
  now.sampler_positions = sharding_.positions;
  now.environment_overrides_acknowledged = acknowledged_;
  return now;
}

Status TrainingRun::FindResumePoint() {
  python_rng_ = PythonRngState::Seeded(static_cast<uint64_t>(config_.seed.value_or(0)));
  if (!config_.resume) {
    return {};
  }
  // Rank 0's look at `last` counts for all: it may move while the others look.
  std::string directory;
  if (is_main()) {
    const Result<fs::path> found = LocateCheckpoint(parsed_.checkpoint_dir);
    directory = found.ok() ? found->string() : parsed_.checkpoint_dir;
  }
  LR_ASSIGN(directory, accelerator_->control().BroadcastFromMain(directory));
  LR_ASSIGN(resume_, OpenResumeSource(directory));
  step_ = resume_->training.step;
  SPDLOG_INFO("Resuming from {} at step {}", resume_->directory.string(), step_);
  for (const std::string& change : TopologyChanges(resume_->training, DescribeStep())) {
    SPDLOG_WARN("Changed since the checkpoint: {}", change);
  }
  return {};
}

Status TrainingRun::Restore() {
  checkpoint_group_ = std::make_unique<RankGroup>(accelerator_->control());
  CheckpointWriterOptions options;
  options.output_dir = config_.output_dir;
  options.run_id = environment_.run_id;
  options.keep_checkpoints = config_.keep_checkpoints;
  checkpoint_writer_ = std::make_unique<CheckpointWriter>(options, *checkpoint_group_);
  if (!resume_) {
    return {};
  }
  LR_ASSIGN(const std::vector<std::string> warnings,
            LoadOptimizer(resume_->training_state(), optimizer_->unwrapped()));
  for (const std::string& warning : warnings) {
    SPDLOG_WARN("{}", warning);
  }
  if (scheduler_) {
    LR_TRY(LoadScheduler(resume_->directory / kSchedulerStatePath, *scheduler_));
  }
  if (parsed_.Given("optimizer.lr")) {
    ApplyGivenLearningRate();
  }
  LR_ASSIGN(const RngState rng, LoadRngState(resume_->directory / kRngStatePath));
  python_rng_ = rng.python;
  return ApplyRngState(rng, accelerator_->device());
}

void TrainingRun::ApplyGivenLearningRate() {
  Optimizer& optimizer = optimizer_->unwrapped();
  std::vector<double> base_lrs;
  for (OptimizerGroup& group : optimizer.groups()) {
    SPDLOG_INFO("--optimizer.lr={} replaces the checkpoint's learning rate {}",
                config_.optimizer->lr,
                group.lr);
    group.lr = config_.optimizer->lr;
    base_lrs.push_back(group.lr);
  }
  if (scheduler_) {
    const Status applied = scheduler_->Restore(scheduler_->last_epoch(), base_lrs);
    LR_CHECK(applied.ok(), "{}", applied.message());
  }
}

ResumePosition TrainingRun::StartOfData() const {
  if (!resume_) {
    return {};
  }
  const TrainingStep& saved = resume_->training;
  const Sharding then = {saved.sampler_positions.value_or(sharding_.positions),
                         saved.batch_size.value_or(sharding_.batch_size),
                         saved.dp_world_size.value_or(sharding_.world)};
  const ResumePosition start = ResumeAt(step_, then);
  SPDLOG_INFO("Resuming data order at epoch {}, sample {}", start.epoch, start.sample);
  for (const std::string& warning : ResumeWarnings(then, sharding_)) {
    SPDLOG_WARN("{}", warning);
  }
  return start;
}

Status TrainingRun::SaveCheckpoint(bool wait) {
  if (topology_.uses_sharded_engine) {  // also with one process: the module holds no weights
    saving_step_ = step_;
    return ReportFailedSave(Unimplemented("a sharded run cannot be saved by this build"));
  }
  link_->SetPhase(Phase::kCheckpoint);
  LR_TRY(FinishPendingCheckpoint(/*wait=*/true));
  SPDLOG_INFO("Checkpoint policy after step {}", step_);
  CheckpointSnapshot snapshot;
  if (is_main()) {
    CheckpointContents contents;
    contents.step = DescribeStep();
    contents.total_steps = config_.steps;
    contents.config_json = DumpConfigFile(ToJson(*config_.policy));
    contents.train_config_json = DumpConfigFile(ToJson(config_));
    contents.model = StateDict(*policy_);
    AddPipeline(*preprocessor_, contents.side_files);
    AddPipeline(*postprocessor_, contents.side_files);
    contents.optimizer = &optimizer_->unwrapped();
    contents.scheduler = scheduler_ ? &*scheduler_ : nullptr;
    contents.rng = CaptureRngState(python_rng_, accelerator_->device());
    snapshot = TakeSnapshot(contents);
  }
  const Status begun = checkpoint_writer_->Begin(step_, std::move(snapshot));
  if (!begun.ok()) {
    return ReportFailedSave(begun);
  }
  saving_step_ = step_;
  return wait ? FinishPendingCheckpoint(true) : Status();
}

Status TrainingRun::FinishPendingCheckpoint(bool wait) {
  if (!checkpoint_writer_->in_progress()) {
    return {};
  }
  std::optional<PublishedCheckpoint> published;
  if (wait) {
    Result<PublishedCheckpoint> finished = checkpoint_writer_->Finish();
    if (!finished.ok()) {
      return ReportFailedSave(finished.status());
    }
    published = std::move(finished).value();
  } else {
    Result<std::optional<PublishedCheckpoint>> polled = checkpoint_writer_->Poll();
    if (!polled.ok()) {
      return ReportFailedSave(polled.status());
    }
    published = std::move(polled).value();
  }
  if (published) {
    for (const std::string& note : published->notes) {
      SPDLOG_INFO("{}", note);
    }
    SPDLOG_INFO(
        "Checkpoint of step {} is complete: {}", published->step, published->directory.string());
    link_->ReportCheckpoint({.step = published->step,
                             .directory = fs::absolute(published->directory).string(),
                             .request = std::exchange(saving_request_, 0),
                             .bytes = published->bytes,
                             .write_s = published->write_seconds,
                             .publish_s = published->publish_seconds});
  }
  return {};
}

Status TrainingRun::ReportFailedSave(const Status& failed) {
  link_->ReportCheckpoint({.step = saving_step_,
                           .directory = "",
                           .outcome = failed,
                           .request = std::exchange(saving_request_, 0)});
  if (failed.code() == StatusCode::kUnavailable) {
    return failed;  // a peer is lost: nothing can go on
  }
  // All ranks agreed on the failure; memory is intact, `last` untouched. Training goes on until the
  // last step, where a run without its final checkpoint has failed.
  if (step_ >= config_.steps || stop_) {
    return failed.WithContext("the final checkpoint could not be saved");
  }
  SPDLOG_ERROR(
      "Checkpoint of step {} failed, training goes on: {}", saving_step_, failed.message());
  return {};
}

}  // namespace lr::worker
