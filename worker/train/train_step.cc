#include "worker/train/train_step.h"

#include <spdlog/spdlog.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include "worker/comm/collective.h"
#include "worker/comm/exception_text.h"

namespace lr::worker {

namespace {

constexpr int64_t kSkipsWorthAWarning = 50;

StepOutputs Update(const StepInputs& in, const Batch& batch, const char*& doing) {
  StepOutputs out;
  doing = "forward";
  in.link.SetPhase(Phase::kForward);
  in.model->train();
  const PolicyOutput output = in.model(batch);
  doing = "backward";
  in.link.SetPhase(Phase::kBackward);
  in.accelerator.backward(output.loss);
  doing = "update";
  in.link.SetPhase(Phase::kOptimizer);
  const at::Tensor norm =
      in.accelerator.clip_grad_norm_(in.optimizer.unwrapped(), in.grad_clip_norm);
  in.optimizer.step();
  in.optimizer.zero_grad();
  if (in.scheduler != nullptr) {
    in.scheduler->step();
  }
  out.loss = output.loss.item<double>();
  if (norm.defined()) {
    out.grad_norm = norm.item<double>();
  }
  if (const GradScaler* scaler = in.accelerator.scaler()) {
    out.scale = scaler->scale();
    if (scaler->skips_in_a_row() == kSkipsWorthAWarning && in.accelerator.sync_gradients()) {
      SPDLOG_WARN(
          "{} updates in a row were skipped because gradients overflowed; the loss scale is {}",
          scaler->skips_in_a_row(),
          *out.scale);
    }
  }
  for (const auto& [name, value] : output.metrics) {
    out.metrics.emplace_back(name, value.item<double>());
  }
  return out;
}

}  // namespace

Result<StepOutputs> TrainStep(const StepInputs& in, const Batch& batch, int64_t counter) {
  in.accelerator.accumulate(counter);
  const char* doing = "start";
  try {
    StepOutputs out = Update(in, batch, doing);
    if (const GradScaler* scaler = in.accelerator.scaler()) {
      LR_TRY(scaler->Health().WithContext("step {}", counter));
    }
    return out;
  } catch (const std::exception& error) {
    // The Reducer of c10d hands on what Gloo throws: a plain runtime error when a connection
    // closes.
    const std::string text = FirstLine(error);
    const bool lost_peer =
        dynamic_cast<const CollectiveError*>(&error) != nullptr ||
        dynamic_cast<const c10::DistError*>(&error) != nullptr ||
        (in.accelerator.num_processes() > 1 && text.find("gloo") != std::string::npos);
    return lost_peer
               ? Unavailable("step {}, {}: a peer is lost or silent ({})", counter, doing, text)
               : Internal("step {}, {}: {}", counter, doing, text);
  }
}

Result<double> EvaluationLoss(PreparedModel<Policy>& model, const Batch& batch) {
  try {
    const at::NoGradGuard no_grad;
    return model(batch).loss.item<double>();
  } catch (const std::exception& error) {
    return Internal("held-out loss: {}", FirstLine(error));
  }
}

}  // namespace lr::worker
