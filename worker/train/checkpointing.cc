// The steps of TrainingRun that save checkpoints (checkpoints.md 3.3).
#include "worker/train/checkpointing.h"

#include <filesystem>
#include <utility>

#include <spdlog/spdlog.h>

#include "worker/checkpoint/dcp/held_state.h"
#include "worker/checkpoint/dcp/sharded_state.h"
#include "worker/checkpoint/model_file.h"
#include "worker/checkpoint/rng_state.h"
#include "worker/comm/communicator.h"
#include "worker/parallel/sharded_engine.h"
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

DcpPlace TrainingRun::Place() const {
  const auto shards = static_cast<int>(topology_.dp_shard);
  return {environment_.rank % shards,
          shards,
          environment_.rank / shards,
          static_cast<int>(topology_.dp_replicate)};
}

std::vector<ShardedParameter> TrainingRun::Held() const {
  const ShardedEngine* engine = accelerator_->sharded();
  return HeldState(*policy_,
                   engine == nullptr ? std::vector<ShardedParameter>() : engine->parameters());
}

bool TrainingRun::ModelIsInShardsAlone() const {
  return topology_.sharded() && config_.checkpoint_format == CheckpointFormat::kDcp;
}

/// Collective for a sharded engine; empty on ranks that do not write it.
std::optional<NamedTensors> TrainingRun::WholeModel(
    const std::vector<ShardedParameter>& held) const {
  const ShardedEngine* engine = accelerator_->sharded();
  if (engine == nullptr) {
    return StateDict(*policy_);
  }
  if (Place().replicate_rank != 0) {
    return std::nullopt;  // the first replica has it all
  }
  return GatherState(held, engine->groups(), /*keep=*/is_main());
}

Status TrainingRun::AddShards(const std::vector<ShardedParameter>& held,
                              CheckpointContents& contents) const {
  if (config_.checkpoint_format != CheckpointFormat::kSafetensors) {
    LR_ASSIGN(DcpSave model, DcpSave::Create(ModelEntries(held), Place()));
    contents.shards.push_back({kModelShardsFolder, std::move(model)});
  }
  LR_ASSIGN(const std::vector<DcpEntry> entries, OptimizerEntries(held, optimizer_->unwrapped()));
  LR_ASSIGN(DcpSave optimizer, DcpSave::Create(entries, Place()));
  contents.shards.push_back({kOptimizerShardsFolder, std::move(optimizer)});
  return {};
}

/// What the pretrained folder says beside the weights.
void TrainingRun::DescribePolicy(CheckpointContents& contents) const {
  contents.config_json = DumpConfigFile(ToJson(*config_.policy));
  contents.train_config_json = DumpConfigFile(ToJson(config_));
  contents.model_is_copy = accelerator_->sharded() != nullptr;
  AddPipeline(*preprocessor_, contents.side_files);
  AddPipeline(*postprocessor_, contents.side_files);
}

Result<CheckpointContents> TrainingRun::Contents() const {
  CheckpointContents contents;
  contents.step = DescribeStep();
  const std::vector<ShardedParameter> held = Held();
  std::optional<NamedTensors> model;
  if (!ModelIsInShardsAlone()) {
    model = WholeModel(held);
  }
  if (topology_.sharded()) {
    LR_TRY(AddShards(held, contents));
  } else {
    contents.optimizer = &optimizer_->unwrapped();
  }
  if (!is_main()) {
    contents.optimizer = nullptr;
    return contents;
  }
  contents.total_steps = config_.steps;
  contents.model = std::move(model);
  DescribePolicy(contents);
  contents.scheduler = scheduler_ ? &*scheduler_ : nullptr;
  contents.scaler = accelerator_->scaler();
  contents.rng = CaptureRngState(python_rng_, accelerator_->device());
  return contents;
}

void TrainingRun::PrepareToSave() {
  checkpoint_group_ = std::make_unique<RankGroup>(accelerator_->control());
  CheckpointWriterOptions options;
  options.output_dir = config_.output_dir;
  options.run_id = environment_.run_id;
  options.keep_checkpoints = config_.keep_checkpoints;
  checkpoint_writer_ = std::make_unique<CheckpointWriter>(options, *checkpoint_group_);
}

Status TrainingRun::SaveCheckpoint(bool wait) {
  link_->SetPhase(Phase::kCheckpoint);
  LR_TRY(FinishPendingCheckpoint(/*wait=*/true));
  SPDLOG_INFO("Checkpoint policy after step {}", step_);
  saving_step_ = step_;
  Result<CheckpointContents> contents = Contents();
  if (const Status collected = Everybody(contents.status()); !collected.ok()) {
    return ReportFailedSave(collected.WithContext("checkpoint of step {} not started", step_));
  }
  const Status begun = checkpoint_writer_->Begin(step_, TakeSnapshot(std::move(contents).value()));
  if (!begun.ok()) {
    return ReportFailedSave(begun);
  }
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
    last_checkpoint_ = published->directory;
    PublishCheckpoint();
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
