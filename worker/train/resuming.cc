// The steps of TrainingRun that continue from a checkpoint (checkpoints.md 3.12).
#include <filesystem>

#include <spdlog/spdlog.h>

#include "common/base/text.h"
#include "worker/checkpoint/dcp/sharded_state.h"
#include "worker/checkpoint/model_file.h"
#include "worker/checkpoint/optimizer_file.h"
#include "worker/checkpoint/resume_source.h"
#include "worker/checkpoint/rng_state.h"
#include "worker/checkpoint/scaler_file.h"
#include "worker/checkpoint/scheduler_file.h"
#include "worker/comm/communicator.h"
#include "worker/parallel/sharded_engine.h"
#include "worker/train/training_run.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

void Warn(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    SPDLOG_WARN("{}", line);
  }
}

}  // namespace

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

/// Shards are read by a sharded run when they are there, by others when there is nothing else.
bool TrainingRun::WeightsAreInShards() const {
  return resume_ && resume_->has_model_shards && (topology_.sharded() || !resume_->has_model_file);
}

/// Before the engine takes the model over; shards are read behind it, by every rank its own part.
Status TrainingRun::LoadWeights() {
  if (parsed_.weights_dir.empty() || WeightsAreInShards()) {
    return {};
  }
  const MissingKeys missing = resume_ ? MissingKeys::kError : MissingKeys::kReport;
  const fs::path folder = resume_ ? resume_->pretrained_model() : fs::path(parsed_.weights_dir);
  LR_ASSIGN(const ModelLoadReport report,
            LoadModel(folder / "model.safetensors", *policy_, missing));
  if (!report.missing.empty()) {
    SPDLOG_WARN("Missing key(s) when loading model: {}", Join(report.missing, ", "));
  }
  if (!report.unexpected.empty()) {
    SPDLOG_WARN("Unexpected key(s) when loading model: {}", Join(report.unexpected, ", "));
  }
  return {};
}

Result<std::vector<std::string>> TrainingRun::RestoreOptimizer(
    const std::vector<ShardedParameter>& held) {
  Optimizer& optimizer = optimizer_->unwrapped();
  if (!resume_->has_optimizer_shards) {
    return LoadOptimizer(resume_->training_state(), optimizer, held, Place());
  }
  LR_ASSIGN(DcpDirectory shards, DcpDirectory::Open(resume_->directory / kOptimizerShardsFolder));
  return LoadOptimizerEntries(shards, held, Place(), optimizer);
}

Status TrainingRun::Restore() {
  if (!resume_) {
    return {};
  }
  const std::vector<ShardedParameter> held = Held();
  if (WeightsAreInShards()) {
    LR_ASSIGN(DcpDirectory model, DcpDirectory::Open(resume_->directory / kModelShardsFolder));
    LR_ASSIGN(const std::vector<std::string> notes, LoadModelEntries(model, held, Place()));
    Warn(notes);
  }
  LR_ASSIGN(const std::vector<std::string> warnings, RestoreOptimizer(held));
  Warn(warnings);
  LR_TRY(RestoreScaler());
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

/// The file's tuning values win, except those that the command line states.
Status TrainingRun::RestoreScaler() {
  GradScaler* scaler = accelerator_->scaler();
  if (scaler == nullptr) {
    if (resume_->has_scaler) {
      SPDLOG_INFO("The checkpoint's loss scale is ignored: this run is not in float16.");
    }
    return {};
  }
  if (!resume_->has_scaler) {
    SPDLOG_WARN("The checkpoint has no scaler_state.json: the loss scale starts at {}",
                scaler->scale());
    return {};
  }
  LR_ASSIGN(GradScalerState state, ReadScalerState(resume_->directory / kScalerStatePath));
  const GradScalerState configured = scaler->state();
  const auto apply = [&](const char* field, auto GradScalerState::*member) {
    if (parsed_.Given(fmt::format("accelerator.grad_scaler.{}", field))) {
      SPDLOG_INFO("--accelerator.grad_scaler.{}={} replaces the checkpoint's {}",
                  field,
                  configured.*member,
                  state.*member);
      state.*member = configured.*member;
    }
  };
  apply("init_scale", &GradScalerState::scale);
  apply("growth_factor", &GradScalerState::growth_factor);
  apply("backoff_factor", &GradScalerState::backoff_factor);
  apply("growth_interval", &GradScalerState::growth_interval);
  scaler->Restore(state);
  return {};
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

}  // namespace lr::worker
