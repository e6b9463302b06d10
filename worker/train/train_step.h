#pragma once
/// One update: forward, backward, clip, optimizer, schedule. The border where tensor exceptions
/// become a Status.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/accelerator/accelerator.h"
#include "worker/control/control.h"
#include "worker/optim/grad_scaler.h"
#include "worker/optim/optimizer.h"
#include "worker/policies/policy.h"

namespace lr::worker {

struct StepInputs {
  Accelerator& accelerator;
  PreparedModel<Policy>& model;
  AcceleratedOptimizer& optimizer;
  AcceleratedScheduler* scheduler = nullptr;  ///< null: constant rate
  ControlLink& link;
  double grad_clip_norm = 0.0;
};

struct StepOutputs {
  double loss = 0.0;                ///< of this rank's micro-batch, undivided
  std::optional<double> grad_norm;  ///< before clipping; only on synchronising passes with clipping
  std::optional<double> scale;      ///< of the loss, after the update; float16 only
  std::vector<std::pair<std::string, double>> metrics;
};

/// The `counter`-th micro-batch of the run (1-based). Collective. Errors: kUnavailable when a
/// collective failed, kFailedPrecondition when float16 training diverges, kInternal for anything
/// else that tensor code threw; with the step and what was being done.
Result<StepOutputs> TrainStep(const StepInputs& in, const Batch& batch, int64_t counter);

/// Held-out loss of one batch: evaluation mode as the caller set it, no gradients, no
/// communication.
Result<double> EvaluationLoss(PreparedModel<Policy>& model, const Batch& batch);

}  // namespace lr::worker
