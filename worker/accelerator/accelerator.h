#pragma once
/// lr::Accelerator: the one engine. It knows the processes and the device, prepares model,
/// optimizer and schedule for the layout in force, and offers the verbs of a training loop under
/// the names of the Accelerate library. The trainer (worker/train) uses nothing else; a user's own
/// loop gets everything the trainer has.
///
/// Life: one per process, created before any tensor work, destroyed after every prepared object.
/// Thread: the step thread. Collective calls (marked) are made by all ranks in the same order.
/// Inside forward and backward tensor code may throw as LibTorch does; every other call reports a
/// Status.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "worker/accelerator/accelerator_config.h"
#include "worker/comm/process_groups.h"
#include "worker/optim/grad_scaler.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/schedule.h"
#include "worker/parallel/replicated_engine.h"
#include "worker/parallel/sharded_engine.h"
#include "worker/parallel/tensor_visitor.h"
#include "worker/precision/autocast.h"

namespace lr {

struct AcceleratorOptions {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  int64_t gradient_accumulation_steps = 1;
  /// Sharded runs: every pass reduces its gradients into the shards, which bounds memory to shards;
  /// else only the last of an update does, which saves traffic.
  bool reduces_every_pass = false;
  worker::Topology topology;                ///< resolved; its product is the world size
  worker::ReplicatedOptions ddp;            ///< when the topology is not sharded
  worker::ShardedOptions fsdp;              ///< when it is
  std::optional<c10::ScalarType> autocast;  ///< dtype of forward passes under mixed precision
  std::optional<worker::GradScalerState> grad_scaler;  ///< float16: the loss is scaled
};

class Accelerator;

/// A module in its data-parallel container: call it like the module; `->` reaches the user's own
/// module. Inputs and outputs are tensors, containers of them, or structs with a VisitTensors
/// overload (tensor_visitor.h).
template <typename Module>
class PreparedModel {
 public:
  PreparedModel(std::shared_ptr<Module> module,
                worker::ParallelEngine& engine,
                const Accelerator& accelerator)
      : module_(std::move(module)), engine_(&engine), accelerator_(&accelerator) {}

  template <typename... Args>
  auto operator()(Args... args);

  Module* operator->() const { return module_.get(); }

  Module& operator*() const { return *module_; }

 private:
  friend class Accelerator;
  worker::AutocastGuard Autocast() const;

  std::shared_ptr<Module> module_;
  worker::ParallelEngine* engine_;
  const Accelerator* accelerator_;
};

/// Steps and clears only on passes that synchronise gradients; with a loss scaler not when
/// gradients of any rank overflowed.
class AcceleratedOptimizer {
 public:
  AcceleratedOptimizer(std::unique_ptr<worker::Optimizer> optimizer, Accelerator& accelerator)
      : optimizer_(std::move(optimizer)), accelerator_(&accelerator) {}

  void step();
  void zero_grad();

  /// The last step() on a synchronising pass did not update the weights.
  bool step_was_skipped() const { return step_was_skipped_; }

  worker::Optimizer& unwrapped() const { return *optimizer_; }

 private:
  std::unique_ptr<worker::Optimizer> optimizer_;
  Accelerator* accelerator_;
  bool step_was_skipped_ = false;
};

class Accelerator {
 public:
  /// Collective: meets the other ranks. Errors: kUnavailable when they do not come.
  static Result<std::unique_ptr<Accelerator>> Create(const AcceleratorOptions& options,
                                                     const WorkerEnvironment& environment);

  ~Accelerator();

  c10::Device device() const { return options_.device; }

  int num_processes() const { return environment_.world_size; }

  int process_index() const { return environment_.rank; }

  int local_process_index() const { return environment_.local_rank; }

  bool is_main_process() const { return environment_.rank == 0; }

  bool is_local_main_process() const { return environment_.local_rank == 0; }

  /// True while the current pass is the last of an update: gradients are applied behind it.
  bool sync_gradients() const { return sync_gradients_; }

  int64_t gradient_accumulation_steps() const { return options_.gradient_accumulation_steps; }

  /// Collective. Moves the module to the device, takes rank 0's weights everywhere and replicates
  /// or shards it. One module per accelerator.
  template <typename Module>
  Result<PreparedModel<Module>> prepare(std::shared_ptr<Module> module);

  /// The optimizer of an already prepared model: its groups' parameters are replaced, by name, with
  /// what this rank holds of them. kNotFound for a name that the model does not have.
  Result<AcceleratedOptimizer> prepare(std::unique_ptr<worker::Optimizer> optimizer);

  /// What was asked for; units may have been added by the model's own declaration.
  const AcceleratorOptions& options() const { return options_; }

  /// The sharded engine of the prepared model; null unless the run is sharded.
  const worker::ShardedEngine* sharded() const { return sharded_; }

  /// True while the current pass exchanges gradients between the ranks.
  bool exchanges_gradients() const {
    return sync_gradients_ || (options_.reduces_every_pass && sharded_ != nullptr);
  }

  /// Null unless the loss is scaled.
  worker::GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }

  const worker::GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

  /// Marks one micro-batch: the `counter`-th of the run (1-based). Gradients are exchanged and
  /// applied when `counter` is a multiple of the accumulation steps; counting from the run's start
  /// keeps the phase across resumes.
  void accumulate(int64_t counter);

  /// Divides by the accumulation steps, scales under float16 and runs backward in the layout in
  /// force.
  template <typename Module>
  void backward(const PreparedModel<Module>& model, const at::Tensor& loss) const;

  /// Global L2 norm before clipping, 0-d, of unscaled gradients; off-sync an undefined tensor and
  /// nothing is touched. `max_norm` <= 0 measures nothing either.
  at::Tensor clip_grad_norm_(worker::Optimizer& optimizer, double max_norm);

  /// Collective. Mean or maximum over the ranks, in place; contiguous float32 on the host.
  Status reduce(at::Tensor& values, worker::ReduceKind kind) {
    return groups_->control().AllReduce(values, kind);
  }

  /// Collective barrier.
  Status wait_for_everyone() { return groups_->control().Barrier(); }

  /// How many collectives this rank has entered, by group; any thread.
  std::vector<worker::GroupSequence> collectives_entered() const { return groups_->Sequences(); }

  /// Agreement, broadcast and gather of small host values.
  worker::Communicator& control() { return groups_->control(); }

 private:
  Accelerator(const AcceleratorOptions& options,
              const WorkerEnvironment& environment,
              std::unique_ptr<worker::ProcessGroups> groups);
  void DeclareUnits(std::vector<std::string> class_names);
  Result<worker::ParallelEngine*> MakeEngine(torch::nn::Module& module);

  /// Outputs of a replicated or plain forward under mixed precision are float32 for the caller.
  void ToFloat(const std::vector<at::Tensor*>& outputs) const;

  template <typename Module>
  friend class PreparedModel;
  friend class AcceleratedOptimizer;

  AcceleratorOptions options_;
  WorkerEnvironment environment_;
  std::unique_ptr<worker::ProcessGroups> groups_;
  std::unique_ptr<worker::ParallelEngine> engine_;  // destroyed before the groups
  worker::ShardedEngine* sharded_ = nullptr;        // the same, when it is one
  std::optional<worker::GradScaler> scaler_;
  bool sync_gradients_ = true;
};

template <typename Module>
template <typename... Args>
auto PreparedModel<Module>::operator()(Args... args) {
  const bool sync = accelerator_->exchanges_gradients();
  std::tuple<Args&...> inputs(args...);
  engine_->BeginForward(worker::TensorsIn(inputs), sync);
  auto output = [&] {
    const worker::AutocastGuard autocast = Autocast();
    return module_->forward(args...);
  }();
  const std::vector<at::Tensor*> outputs = worker::TensorsIn(output);
  engine_->EndForward(outputs, sync);
  accelerator_->ToFloat(outputs);
  return output;
}

template <typename Module>
worker::AutocastGuard PreparedModel<Module>::Autocast() const {
  return {accelerator_->device().type(),
          accelerator_->options_.autocast,
          accelerator_->sharded() == nullptr};
}

template <typename Module>
Result<PreparedModel<Module>> Accelerator::prepare(std::shared_ptr<Module> module) {
  module->to(options_.device);
  if constexpr (requires { module->wrap_modules(); }) {
    DeclareUnits(module->wrap_modules());
  }
  LR_ASSIGN(worker::ParallelEngine * engine, MakeEngine(*module));
  return PreparedModel<Module>(std::move(module), *engine, *this);
}

template <typename Module>
void Accelerator::backward(const PreparedModel<Module>& model, const at::Tensor& loss) const {
  const int64_t steps = options_.gradient_accumulation_steps;
  const at::Tensor divided = steps == 1 ? loss : loss / static_cast<double>(steps);
  model.engine_->Backward(scaler_ ? scaler_->Scale(divided) : divided, exchanges_gradients());
}

}  // namespace lr
