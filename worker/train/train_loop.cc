// The training loop of TrainingRun (dataset_and_training_loop.md H.3): batch, update, log,
// evaluate, agree, save.
#include <algorithm>
#include <chrono>

#include <ATen/ops/empty.h>
#include <spdlog/spdlog.h>

#include "worker/comm/communicator.h"
#include "worker/data/held_out.h"
#include "worker/train/training_run.h"

namespace lr::worker {

namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// PyTorch's loader draws one int64 from the default generator whenever an iterator is made; the
/// training stream (dropout, latent noise) of the reference continues behind that draw.
void DrawLoaderSeed() {
  at::empty({}, at::kLong).random_();
}

}  // namespace

Status TrainingRun::Loop() {
  policy_->train();
  while (step_ < config_.steps && !stop_) {
    LR_TRY(OneStep());
  }
  LR_ASSIGN(const NumberedWord late, agreement_->Finish());
  if (late.word != ControlWord::kNone) {
    saving_request_ = std::max(saving_request_, late.number);
    SPDLOG_INFO("A request arrived with the last step; the final checkpoint answers it.");
  }
  LR_TRY(FinishPendingCheckpoint(/*wait=*/true));
  return {};
}

Status TrainingRun::OneStep() {
  const Stopwatch whole;
  link_->SetPhase(Phase::kData);
  LR_ASSIGN(Batch batch, NextBatch());
  window_->Add("dataloading_s", whole.seconds());

  const Stopwatch preprocessing;
  PrepareBatch(batch, config_.rename_map);
  LR_TRY(preprocessor_->Apply(batch).WithContext("step {}", step_ + 1));
  window_->Add("preprocessing_s", preprocessing.seconds());

  const Stopwatch update;
  const StepInputs inputs{*accelerator_,
                          *model_,
                          *optimizer_,
                          prepared_scheduler_ ? &*prepared_scheduler_ : nullptr,
                          *link_,
                          config_.optimizer->grad_clip_norm};
  LR_ASSIGN(const StepOutputs out, TrainStep(inputs, batch, step_ + 1));
  window_->Add("update_s", update.seconds());
  window_->Add("loss", out.loss);
  const double lr = optimizer_->unwrapped().groups()[0].lr;
  window_->Add("lr", lr);
  if (out.grad_norm) {
    window_->Add("grad_norm", *out.grad_norm);
  }
  if (out.scale) {
    window_->Add("scale", *out.scale);
  }
  for (const auto& [name, value] : out.metrics) {
    if (!window_->is_fixed(name)) {
      window_->Add(name, value);
    }
  }
  window_->Add("step_s", whole.seconds());
  ++step_;
  if (observer_) {
    observer_(step_, batch, out, lr);
  }
  progress_->Advance();
  const double seconds = whole.seconds();
  link_->ReportStep(
      {step_, config_.steps, out.loss, static_cast<double>(samples_per_step()) / seconds, seconds});

  if (config_.log_freq > 0 && step_ % config_.log_freq == 0) {
    LR_TRY(LogWindow());
  }
  if (config_.eval_steps > 0 && step_ % config_.eval_steps == 0) {
    LR_TRY(EvaluateHeldOut());
  }
  return ActOnRequests();
}

Result<Batch> TrainingRun::NextBatch() {
  LR_ASSIGN(std::optional<LoadedBatch> loaded, loader_->Next().WithContext("step {}", step_ + 1));
  LR_CHECK(loaded.has_value(), "the training stream has no end");
  const bool first = epoch_of_last_batch_ < 0;
  const bool new_epoch = loaded->epoch != epoch_of_last_batch_;
  epoch_of_last_batch_ = loaded->epoch;
  // A resumed run goes on in the middle of an iterator whose draw lies behind the saved random
  // state.
  const bool mid_epoch = first && resume_ && step_ % sharding_.batches_per_epoch() != 0;
  const bool persistent = config_.num_workers > 0 && config_.persistent_workers;
  if (persistent ? (first && !resume_) : (new_epoch && !mid_epoch)) {
    DrawLoaderSeed();
  }
  return std::move(loaded->batch);
}

Status TrainingRun::LogWindow() {
  LR_TRY(window_->Reduce(
      samples_per_step(),
      [&](std::vector<float>& values, MetricReduction kind) {
        at::Tensor tensor =
            at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
        return accelerator_->control().AllReduce(
            tensor, kind == MetricReduction::kMax ? ReduceKind::kMax : ReduceKind::kMean);
      },
      [&](const std::string& text) { return accelerator_->control().AllGather(text); }));
  SPDLOG_INFO("{}",
              window_->Line(ProgressAt(
                  step_, samples_per_step(), dataset_->size(), dataset_->num_episodes())));
  if (is_main() && window_->value("dataloading_s") > 0.5 * window_->value("step_s") &&
      config_.num_workers == 0) {
    SPDLOG_INFO(
        "More than half of each step waits for data; --num_workers=N loads it beside the "
        "training.");
  }
  window_->Reset();
  return {};
}

Status TrainingRun::EvaluateHeldOut() {
  link_->SetPhase(Phase::kEval);
  const bool persistent = config_.num_workers > 0 && config_.persistent_workers;
  if (!persistent || !held_out_was_seeded_) {
    DrawLoaderSeed();
    held_out_was_seeded_ = true;
  }
  LR_ASSIGN(const std::unique_ptr<DataLoader> loader,
            DataLoader::Create(
                held_out_,
                HeldOutSource(HeldOutRows(held_out_->TaskIndices(), config_.max_eval_samples),
                              config_.batch_size,
                              topology_.dp_world_size(),
                              environment_.rank),
                {config_.num_workers, config_.prefetch_factor, device_.backend == Backend::kCuda}));
  policy_->eval();
  double sum = 0.0;
  int64_t batches = 0;
  while (true) {
    LR_ASSIGN(std::optional<LoadedBatch> loaded,
              loader->Next().WithContext("held-out loss at step {}", step_));
    if (!loaded) {
      break;
    }
    link_->SetPhase(Phase::kEval);  // once more for every batch: a sign of progress
    PrepareBatch(loaded->batch, config_.rename_map);
    LR_TRY(preprocessor_->Apply(loaded->batch).WithContext("held-out loss at step {}", step_));
    LR_ASSIGN(const double loss, EvaluationLoss(*model_, loaded->batch));
    sum += loss;
    ++batches;
  }
  policy_->train();
  at::Tensor mean =
      at::full({1}, batches == 0 ? 0.0 : sum / static_cast<double>(batches), at::kFloat);
  LR_TRY(accelerator_->control().AllReduce(mean, ReduceKind::kMean));
  SPDLOG_INFO("step {}: eval_loss={:.4f}", step_, mean.item<double>());
  return {};
}

bool TrainingRun::SaveIsDue() const {
  const bool periodic = config_.save_freq > 0 && step_ % config_.save_freq == 0;
  return config_.save_checkpoint && (periodic || step_ == config_.steps);
}

Status TrainingRun::ActOnRequests() {
  LR_ASSIGN(const NumberedWord request, agreement_->Exchange());
  const ControlWord word = request.word;
  stop_ = word >= ControlWord::kCheckpointAndStop;
  const bool asked = word == ControlWord::kCheckpoint || word == ControlWord::kCheckpointAndStop;
  if (asked && !stop_ && !SaveIsDue() && checkpoint_writer_->in_progress()) {
    SPDLOG_INFO("All ranks agreed at step {}: the save of step {} answers the request.",
                step_,
                saving_step_);
    saving_request_ = std::max(saving_request_, request.number);
    return FinishPendingCheckpoint(/*wait=*/false);
  }
  if (asked) {
    SPDLOG_INFO("All ranks agreed at step {}: {}.",
                step_,
                stop_ ? "save a checkpoint and stop" : "save a checkpoint");
  }
  if (!SaveIsDue() && !asked) {
    return FinishPendingCheckpoint(/*wait=*/stop_);
  }
  LR_TRY(FinishPendingCheckpoint(/*wait=*/true));
  saving_request_ = request.number;
  link_->ReportSaveBegun(step_, saving_request_);
  return SaveCheckpoint(/*wait=*/stop_ || step_ == config_.steps);
}

}  // namespace lr::worker
