/// The verbs of a training loop.
#include <algorithm>

#include "worker/accelerator/accelerator.h"
#include "worker/accelerator/optimizer_slot.h"
#include "worker/accelerator/status_error.h"
#include "worker/comm/process_groups.h"
#include "worker/optim/grad_scaler.h"
#include "worker/parallel/sharded_engine.h"

namespace lr {

// ---- passes

Accumulation::Accumulation(Accelerator& accelerator) : accelerator_(&accelerator) {
  accelerator_->OpenPass();
}

Accumulation::~Accumulation() {
  accelerator_->is_in_pass_ = false;
}

NoSync::NoSync(Accelerator& accelerator) : accelerator_(&accelerator) {
  ++accelerator_->no_syncs_;
}

NoSync::~NoSync() {
  --accelerator_->no_syncs_;
}

void Accelerator::accumulate(int64_t counter) {
  sync_gradients_ = counter % options_.gradient_accumulation_steps == 0;
  is_in_pass_ = true;
}

/// An update that a loader's end closes is the last of its window: the count begins anew.
void Accelerator::OpenPass() {
  const bool closes_loop =
      options_.sync_with_dataloader && !loops_.empty() && loops_.back()->is_at_end;
  accumulate(++passes_);
  if (closes_loop) {
    passes_ = 0;
    sync_gradients_ = true;
  }
}

bool Accelerator::exchanges_gradients() const {
  const bool is_due = sync_gradients_ || !is_in_pass_;
  return no_syncs_ == 0 && (is_due || (options_.reduces_every_pass && sharded_ != nullptr));
}

worker::AutocastGuard Accelerator::autocast() const {
  return {options_.device.type(), options_.autocast, sharded_ == nullptr};
}

void Accelerator::ToFloat(const std::vector<at::Tensor*>& outputs) const {
  if (options_.autocast && sharded_ == nullptr) {
    for (at::Tensor* output : outputs) {
      if (output->is_floating_point()) {
        *output = output->to(at::kFloat);
      }
    }
  }
}

void Accelerator::backward(const at::Tensor& loss) {
  const int64_t steps = options_.gradient_accumulation_steps;
  at::Tensor divided = steps == 1 ? loss : loss / static_cast<double>(steps);
  if (scaler_) {
    if (scaler_->IsDue()) {  // of several optimizers not all were stepped
      scaler_->Update();
    }
    divided = scaler_->Scale(divided);
  }
  if (models_.empty()) {
    ThrowUnlessOk(FailedPrecondition("backward() before a model was prepared"));
  }
  models_.front().engine->Backward(divided, exchanges_gradients());
}

// ---- updates

/// The loss scale moves when all optimizers have stepped, so that each of an update sees the same.
void Accelerator::StepOptimizer(worker::OptimizerSlot& slot) {
  if (!sync_gradients_) {
    return;
  }
  if (!scaler_) {
    slot.optimizer->Step();
    return;
  }
  slot.step_was_skipped = !scaler_->Step(*slot.optimizer, [this](at::Tensor& value) {
    SumOverWorld(groups_->shards(), "overflows", value);
  });
  const bool all_stepped = std::ranges::all_of(
      optimizers_, [&](const auto& one) { return scaler_->IsUnscaled(*one->optimizer); });
  if (all_stepped && scaler_->IsDue()) {
    scaler_->Update();
  }
}

void AcceleratedOptimizer::step() {
  accelerator_->StepOptimizer(*slot_);
}

void AcceleratedOptimizer::zero_grad() {
  if (accelerator_->sync_gradients()) {
    slot_->optimizer->ZeroGrad();
  }
}

bool AcceleratedOptimizer::step_was_skipped() const {
  return slot_->step_was_skipped;
}

worker::Optimizer& AcceleratedOptimizer::unwrapped() const {
  return *slot_->optimizer;
}

bool Accelerator::AnyStepWasSkipped() const {
  return std::ranges::any_of(optimizers_, [](const auto& slot) { return slot->step_was_skipped; });
}

void AcceleratedScheduler::step() {
  const worker::EngineOptions& options = accelerator_->options();
  if (!options.step_scheduler_with_optimizer) {
    move_();
    return;
  }
  if (!accelerator_->sync_gradients() || accelerator_->AnyStepWasSkipped()) {
    return;
  }
  const int moves = options.split_batches ? 1 : accelerator_->num_processes();
  for (int i = 0; i < moves; ++i) {
    move_();
  }
}

// ---- gradients

void Accelerator::unscale_gradients() {
  for (const auto& slot : optimizers_) {
    if (scaler_ && sync_gradients_ && !scaler_->IsUnscaled(*slot->optimizer)) {
      scaler_->Unscale(*slot->optimizer);
    }
  }
}

/// Of the optimizers that own one of these.
void Accelerator::Unscale(const std::vector<at::Tensor>& held) {
  for (const auto& slot : optimizers_) {
    if (!scaler_ || scaler_->IsUnscaled(*slot->optimizer)) {
      continue;
    }
    const bool owns =
        std::ranges::any_of(slot->optimizer->groups(), [&](const worker::OptimizerGroup& group) {
          return std::ranges::any_of(group.params, [&](const at::Tensor& param) {
            return std::ranges::any_of(held,
                                       [&](const at::Tensor& one) { return one.is_same(param); });
          });
        });
    if (owns) {
      scaler_->Unscale(*slot->optimizer);
    }
  }
}

at::Tensor Accelerator::clip_grad_norm_(worker::Optimizer& optimizer, double max_norm) {
  std::vector<at::Tensor> held;
  for (const worker::OptimizerGroup& group : optimizer.groups()) {
    held.insert(held.end(), group.params.begin(), group.params.end());
  }
  return ClipNorm(held, max_norm, 2.0);
}

at::Tensor Accelerator::clip_grad_norm_(const std::vector<at::Tensor>& parameters,
                                        double max_norm,
                                        double norm_type) {
  std::vector<at::Tensor> held = parameters;
  Relink(held);
  return ClipNorm(held, max_norm, norm_type);
}

at::Tensor Accelerator::ClipNorm(const std::vector<at::Tensor>& held,
                                 double max_norm,
                                 double norm_type) {
  if (!sync_gradients_ || max_norm <= 0) {
    return {};
  }
  Unscale(held);
  if (sharded_ == nullptr) {
    return worker::ClipGradNorm(held, max_norm, nullptr, norm_type);
  }
  worker::NormOverRanks ranks;
  ranks.sum = [this](at::Tensor& powers) {
    SumOverShards(sharded_->groups(), "gradient norms", powers);
  };
  ranks.max = [this](at::Tensor& largest) {
    MaxOverShards(sharded_->groups(), "gradient norms", largest);
  };
  for (const worker::ShardedParameter& one : sharded_->parameters()) {
    if (!one.is_sharded && sharded_->groups().shard_rank != 0) {
      ranks.counted_elsewhere.insert(one.shard.unsafeGetTensorImpl());
    }
  }
  return worker::ClipGradNorm(held, max_norm, &ranks, norm_type);
}

void Accelerator::clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  if (!sync_gradients_) {
    return;
  }
  std::vector<at::Tensor> held = parameters;
  Relink(held);
  Unscale(held);
  const at::NoGradGuard no_grad;
  for (at::Tensor& one : held) {
    if (one.grad().defined()) {
      one.mutable_grad().clamp_(-clip_value, clip_value);
    }
  }
}

// ---- all processes

void Accelerator::wait_for_everyone() {
  ThrowUnlessOk(groups_->control().Barrier());
}

MainProcessFirst Accelerator::main_process_first() {
  return MainProcessFirst(*this);
}

MainProcessFirst::MainProcessFirst(Accelerator& accelerator) : accelerator_(&accelerator) {
  if (!accelerator_->is_main_process()) {
    accelerator_->wait_for_everyone();
  }
}

MainProcessFirst::~MainProcessFirst() {
  if (accelerator_->is_main_process()) {
    [[maybe_unused]] const Status kept_by_the_group = accelerator_->control().Barrier();
  }
}

/// Peers that send different sizes hang or end the process: told apart before.
void Accelerator::CheckSameEverywhere(const char* verb, const at::Tensor& tensor) {
  const std::string mine =
      fmt::format("[{}] {}", fmt::join(tensor.sizes(), ", "), c10::toString(tensor.scalar_type()));
  const std::vector<std::string> all = ValueOrThrow(groups_->control().AllGather(mine));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      ThrowUnlessOk(InvalidArgument(
          "{}: rank 0 gives a tensor {}, rank {} one of {}; all must be of one shape and type",
          verb,
          all[0],
          rank,
          all[rank]));
    }
  }
}

at::Tensor Accelerator::Gather(const at::Tensor& tensor) {
  CheckSameEverywhere("gather", tensor);
  return GatherOverWorld(groups_->shards(), "values", tensor);
}

at::Tensor Accelerator::GatherRealRows(const at::Tensor& tensor) {
  const at::Tensor all = Gather(tensor);
  if (loops_.empty() || tensor.dim() == 0 || tensor.size(0) != loops_.back()->rows) {
    return all;
  }
  const at::Tensor counts = GatherOverWorld(
      groups_->shards(), "row counts", at::full({1}, loops_.back()->real_rows, at::kLong));
  std::vector<at::Tensor> real;
  for (int rank = 0; rank < ranks_.world_size; ++rank) {
    real.push_back(all.narrow(0, rank * tensor.size(0), counts[rank].item<int64_t>()));
  }
  return at::cat(real);
}

at::Tensor Accelerator::Reduce(const at::Tensor& tensor, Reduction reduction) {
  CheckSameEverywhere("reduce", tensor);
  at::Tensor sum = tensor.detach().clone();
  SumOverWorld(groups_->shards(), "values", sum);
  return reduction == Reduction::kSum ? sum : sum / ranks_.world_size;
}

}  // namespace lr
