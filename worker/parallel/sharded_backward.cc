/// The backward side of the sharded engine: one agreement before it, gathers and reductions in one
/// order on all ranks during it, the rest after it. Hooks run on the thread of the autograd engine;
/// on the CPU that is the step thread.
#include <algorithm>
#include <limits>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/variable.h>

#include "common/base/text.h"
#include "worker/parallel/sharded_engine.h"

namespace lr::worker {

namespace {

constexpr size_t kMostReductionsInFlight = 2;
constexpr int kNeverFreedEarly = std::numeric_limits<int>::max();

}  // namespace

void ShardedEngine::Backward(const at::Tensor& loss, bool sync) {
  TORCH_CHECK(expects_backward_,
              "backward without a forward in grad mode before it (a second backward of one forward "
              "is not supported by the sharded engine)");
  sync_ = sync;
  PrepareBackward(loss);
  in_backward_ = true;
  loss.backward();
  in_backward_ = false;
  FinishBackward();
}

/// In a hook: autograd was not started past the engine, which would exchange nothing.
void ShardedEngine::CheckBackward() const {
  TORCH_CHECK(in_backward_,
              "the backward of a sharded model is started by accelerator.backward(loss), not by "
              "loss.backward()");
}

// ---- before

void ShardedEngine::PrepareBackward(const at::Tensor& loss) {
  const bool look = options_.find_unused_parameters;
  const auto nodes = ReachableNodes(loss);
  const auto reached = [&](const torch::autograd::Node* node) {
    return node != nullptr && nodes.count(node) > 0;
  };
  use_ = {};
  passes_.assign(units_.size(), {});
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    std::vector<int32_t>& counts = use_.slots.emplace_back();
    const std::vector<ShardSlot>& slots = units_[unit]->slots();
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      const bool is_expected =
          slots[slot].trainable && (!look || reached(accumulator_of_[unit][slot]));
      passes_[unit].gradients_left += is_expected ? 1 : 0;
      counts.push_back(is_expected || slots[slot].accumulated.defined() ? 1 : 0);
    }
  }
  for (const UnitParameter& one : ignored_) {
    const bool trains = one.parameter.requires_grad();
    const bool is_used =
        trains && reached(torch::autograd::impl::grad_accumulator(one.parameter).get());
    use_.ignored.push_back(is_used || one.parameter.grad().defined() ? 1 : 0);
  }
  for (Call& call : calls_) {
    call.is_used = !look || std::ranges::any_of(call.outputs, [&](const auto& node) {
      return reached(node.get());
    });
    use_.calls.push_back(call.is_used ? 1 : 0);
    int& gates = passes_[call.unit].gates_left;
    if (call.is_used && units_[call.unit]->has_frozen_slots() && gates != kNeverFreedEarly) {
      gates = call.has_gate ? gates + 1 : kNeverFreedEarly;
    }
  }
  if (units_[root()]->has_frozen_slots()) {
    passes_[root()].gates_left = kNeverFreedEarly;
  }
  if (look) {
    use_.SumOver(groups_);
  }
  is_uniform_ = !look || use_.IsUniform(groups_.world_size());
  for (size_t i = 0; i < calls_.size(); ++i) {
    calls_[i].use_count = use_.calls[i];
  }
  OrderReductions();
  cursor_ = calls_.size();
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    if (passes_[unit].gradients_left == 0) {
      UnitReady(unit);
    }
  }
}

/// Reverse order of first calls, the root after them, units that did not run at the end.
void ShardedEngine::OrderReductions() {
  reduction_order_.clear();
  next_reduction_ = 0;
  std::vector<bool> is_listed(units_.size(), false);
  const auto list = [&](size_t unit) {
    if (!is_listed[unit]) {
      is_listed[unit] = true;
      reduction_order_.push_back(unit);
    }
  };
  for (const Call& call : calls_) {
    list(call.unit);
  }
  std::ranges::reverse(reduction_order_);
  list(root());
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    list(unit);
  }
}

// ---- gathers

void ShardedEngine::PreBackward(size_t position) {
  CheckBackward();
  const Call& call = calls_[position];
  if (passes_[call.unit].is_freed) {
    return;  // another output of a call that is over
  }
  LaunchGathersDownTo(position);
  units_[call.unit]->FinishGather();
  while (cursor_ > 0 && !LaunchGather(--cursor_)) {
  }
}

void ShardedEngine::LaunchGathersDownTo(size_t position) {
  while (cursor_ > position) {
    LaunchGather(--cursor_);
  }
}

/// Whether a gather was started. What counts is who uses the call on all ranks, not what is present
/// here: only then do all ranks start the same gathers.
bool ShardedEngine::LaunchGather(size_t position) {
  const Call& call = calls_[position];
  if (!options_.reshard_after_forward || call.use_count == 0) {
    return false;
  }
  ShardedUnit& unit = *units_[call.unit];
  if (call.is_used && unit.is_sharded() && !passes_[call.unit].is_freed) {
    unit.StartGather();
    return true;
  }
  if (is_uniform_) {
    return false;
  }
  scratch_.push_back(unit.StartScratchGather());
  return true;
}

// ---- gradients

void ShardedEngine::OnGradient(size_t unit, size_t slot) {
  CheckBackward();
  const at::NoGradGuard no_grad;
  ShardSlot& one = units_[unit]->slots()[slot];
  one.gradient = std::exchange(one.leaf.mutable_grad(), at::Tensor());
  if (--passes_[unit].gradients_left == 0) {
    UnitReady(unit);
  }
}

void ShardedEngine::OnGate(size_t unit) {
  int& gates = passes_[unit].gates_left;
  if (gates != kNeverFreedEarly && --gates == 0) {
    MaybeFree(unit);
  }
}

void ShardedEngine::MaybeFree(size_t unit) {
  UnitPass& pass = passes_[unit];
  if (pass.is_ready && pass.gates_left == 0) {
    units_[unit]->Release();
    pass.is_freed = true;
  }
}

void ShardedEngine::UnitReady(size_t unit) {
  passes_[unit].is_ready = true;
  MaybeFree(unit);
  if (sync_) {
    LaunchReductions();
  } else {
    units_[unit]->Accumulate();
  }
}

void ShardedEngine::LaunchReductions() {
  while (next_reduction_ < reduction_order_.size() &&
         passes_[reduction_order_[next_reduction_]].is_ready) {
    const size_t unit = reduction_order_[next_reduction_++];
    if (std::ranges::any_of(use_.slots[unit], [](int32_t count) { return count > 0; })) {
      reductions_.push_back(
          {unit,
           PendingReduction(groups_, units_[unit]->title(), units_[unit]->TakeReductionRows())});
    }
    // A rank that uses less may be behind: then nothing waits before the end.
    if (is_uniform_ && reductions_.size() > kMostReductionsInFlight) {
      CompleteOldestReduction();
    }
  }
}

void ShardedEngine::CompleteOldestReduction() {
  Reduction oldest = std::move(reductions_.front());
  reductions_.pop_front();
  std::vector<bool> is_used;
  const std::vector<ShardSlot>& slots = units_[oldest.unit]->slots();
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot].trainable) {
      is_used.push_back(use_.slots[oldest.unit][slot] > 0);
    }
  }
  const at::NoGradGuard no_grad;
  units_[oldest.unit]->StoreReduced(oldest.pending.Wait(), is_used);
}

/// The mean over all ranks, in float32; of a parameter that somebody uses.
void ShardedEngine::ReduceIgnored() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < ignored_.size(); ++i) {
    at::Tensor& parameter = ignored_[i].parameter;
    if (!parameter.requires_grad() || use_.ignored[i] == 0) {
      continue;
    }
    at::Tensor& gradient = parameter.mutable_grad();
    at::Tensor sum = gradient.defined()
                         ? gradient.to(at::kFloat)
                         : at::zeros(parameter.sizes(), parameter.options().dtype(at::kFloat));
    SumOverWorld(groups_, "the gradient of '" + ignored_[i].names.front() + "'", sum);
    gradient = sum.div_(groups_.world_size()).to(parameter.scalar_type());
  }
}

// ---- after

void ShardedEngine::FinishBackward() {
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    TORCH_CHECK(passes_[unit].gradients_left == 0,
                units_[unit]->title(),
                ": ",
                passes_[unit].gradients_left,
                " parameters got no gradient, and find_unused_parameters is off");
  }
  if (!is_uniform_) {
    LaunchGathersDownTo(0);
  }
  if (sync_) {
    while (!reductions_.empty()) {
      CompleteOldestReduction();
    }
    ReduceIgnored();
  }
  for (ShardedUnit::Scratch& scratch : scratch_) {
    scratch.gather.Wait();
  }
  scratch_.clear();
  ReleaseAll();
  calls_.clear();
  expects_backward_ = false;
}

}  // namespace lr::worker
