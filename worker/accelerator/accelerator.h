#pragma once
/// lr::Accelerator: the one engine. It knows the processes and the device, prepares models,
/// optimizers, schedules and loaders for the layout in force, and offers the verbs of a training
/// loop under the names of the Accelerate library. The trainer (worker/train) uses nothing else; a
/// user's own loop gets everything the trainer has. Installed as part of lr/accelerator.h: neither
/// this header nor what it includes needs c10d or fmt.
///
/// Life: one per process, made before any tensor work, destroyed after every prepared object.
/// Thread: the step thread. Collective calls (marked) are made by all ranks in the same order.
/// Errors: tensor code throws as LibTorch does, also for a lost peer; what cannot be done is an
/// lr::Error; only what returns a Status or Result reports by it.

#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "worker/accelerator/accelerator_options.h"
#include "worker/accelerator/data_loader.h"
#include "worker/accelerator/engine_options.h"
#include "worker/accelerator/error.h"
#include "worker/accelerator/prepared.h"
#include "worker/parallel/engine.h"
#include "worker/parallel/tensor_visitor.h"
#include "worker/precision/autocast.h"

namespace lr {

class Status;
template <typename T>
class Result;
struct WorkerEnvironment;

namespace worker {
class Communicator;
class GradScaler;
class ProcessGroups;
class ShardedEngine;
struct GroupSequence;
}  // namespace worker

enum class Reduction { kMean, kSum };

class Accelerator {
 public:
  /// Collective: reads the launch environment, chooses the device, resolves the layout and meets
  /// the other ranks. An Error: what the environment or `options` say is impossible, or nobody
  /// comes.
  explicit Accelerator(const AcceleratorOptions& options = {});

  /// The same with everything decided. Errors: kUnavailable when the other ranks do not come.
  static Result<std::unique_ptr<Accelerator>> Create(const worker::EngineOptions& options,
                                                     const WorkerEnvironment& environment);

  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  c10::Device device() const { return options_.device; }

  int num_processes() const { return ranks_.world_size; }

  int process_index() const { return ranks_.rank; }

  int local_process_index() const { return ranks_.local_rank; }

  bool is_main_process() const { return ranks_.rank == 0; }

  bool is_local_main_process() const { return ranks_.local_rank == 0; }

  /// True while the current pass is the last of an update: gradients are applied behind it.
  bool sync_gradients() const { return sync_gradients_; }

  int64_t gradient_accumulation_steps() const { return options_.gradient_accumulation_steps; }

  /// What was asked for; units may have been added by the model's own declaration.
  const worker::EngineOptions& options() const { return options_; }

  // ---- prepare

  /// Collective. The prepared objects in the order given, a single one for one argument:
  ///   std::shared_ptr of a module, module holder   PreparedModel: on the device, rank 0's weights
  ///                                                everywhere, replicated or sharded
  ///   torch::optim::Optimizer&,                    AcceleratedOptimizer: its groups hold what this
  ///   std::unique_ptr<worker::Optimizer>           rank has of the parameters
  ///   torch::optim::LRScheduler&,                  AcceleratedScheduler
  ///   worker::LrScheduler&
  ///   torch's data loaders (reference or the       PreparedLoader; a unique_ptr that is moved in
  ///   is std::unique_ptr that holds one)              owned by it
  /// What comes as a reference is kept as one and must outlive the result. Anything else comes back
  /// as it is. Models are prepared first, wherever they stand; an optimizer whose parameters belong
  /// to no prepared model is refused in a sharded run, where it would train nothing.
  template <typename... Objects>
  auto prepare(Objects&&... objects);

  /// Any range of batches as a loader (data_loader.h), under the rule for references above.
  template <typename Loader>
  PreparedLoader<Loader> prepare_data_loader(Loader& loader) {
    return {std::shared_ptr<Loader>(std::shared_ptr<void>(), &loader), *this};
  }

  /// Drops everything that was prepared; `objects` are those that the program still holds, left
  /// empty. The models' engines go with the last of them.
  template <typename... Objects>
  void free_memory(Objects&... objects) {
    ([&] { [[maybe_unused]] const auto dropped = std::move(objects); }(), ...);
    Forget();
  }

  // ---- the loop

  /// Opens one pass, until the guard ends: gradients are exchanged and applied in every
  /// `gradient_accumulation_steps`-th, and in the last one of a prepared loader. What the body says
  /// to optimizer and schedule acts when it is due.
  template <typename... Modules>
  [[nodiscard]] Accumulation accumulate(const PreparedModel<Modules>&... models);

  /// The same for a loop that counts itself: the `counter`-th pass of the run (1-based), without a
  /// guard. Counting from the run's start keeps the phase across resumes.
  void accumulate(int64_t counter);

  /// Passes exchange no gradients while the guard lives; the next one does it for them.
  template <typename... Modules>
  [[nodiscard]] NoSync no_sync(const PreparedModel<Modules>&... models);

  /// Divides by the accumulation steps, scales under float16 and runs backward in the layout in
  /// force. Collective in a pass that exchanges gradients.
  void backward(const at::Tensor& loss);

  /// The lower precision of the run for operations outside the model, a loss for example.
  [[nodiscard]] worker::AutocastGuard autocast() const;

  /// Divides the optimizers' gradients by the loss scale; nothing for those that are done.
  void unscale_gradients();

  /// Collective. Global norm of the parameters' gradients before clipping, 0-d, unscaled first;
  /// off-sync an undefined tensor, and nothing is touched. `max_norm` <= 0 measures nothing either.
  /// Parameters as the module has them, or as the optimizer does.
  at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters,
                             double max_norm,
                             double norm_type = 2.0);
  at::Tensor clip_grad_norm_(worker::Optimizer& optimizer, double max_norm);

  /// Clamps the gradients to [-clip_value, clip_value], unscaled first; nothing off-sync.
  void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);

  // ---- all processes

  /// Collective. Every tensor of `value` with those of all ranks behind each other along dim 0, by
  /// rank. An Error when shapes or types differ between ranks.
  template <typename Value>
  Value gather(Value value);

  /// The same without the rows that complete the last batch of the loader that runs: what belongs
  /// to the data, once. Tensors with other numbers of rows than the batch are gathered whole.
  template <typename Value>
  Value gather_for_metrics(Value value);

  /// Collective. Every tensor of `value` summed or averaged over the ranks.
  template <typename Value>
  Value reduce(Value value, Reduction reduction = Reduction::kSum);

  /// Collective barrier.
  void wait_for_everyone();

  /// Collective. The main process runs what follows, until the guard ends; the others after it.
  [[nodiscard]] MainProcessFirst main_process_first();

  /// On the main process, one line to stdout, the parts separated by spaces.
  template <typename... Parts>
  void print(const Parts&... parts) const;

  // ---- the model

  /// The module that was given to prepare. In a sharded run its parameters are not present outside
  /// of a forward pass.
  template <typename Module>
  std::shared_ptr<Module> unwrap_model(const PreparedModel<Module>& model) const {
    return model.module_;
  }

  /// Collective. Parameters and buffers, whole, under the module's own names, on its device.
  template <typename Module>
  std::map<std::string, at::Tensor> get_state_dict(const PreparedModel<Module>& model) const {
    return StateOf(*model.module_);
  }

  // ---- for programs of this project

  /// The sharded engine of the prepared model; null unless the run is sharded.
  const worker::ShardedEngine* sharded() const { return sharded_; }

  /// True while the current pass exchanges gradients between the ranks.
  bool exchanges_gradients() const;

  /// Null unless the loss is scaled.
  worker::GradScaler* scaler() { return scaler_.get(); }

  const worker::GradScaler* scaler() const { return scaler_.get(); }

  /// How many collectives this rank has entered, by group; any thread.
  std::vector<worker::GroupSequence> collectives_entered() const;

  /// Agreement, broadcast and gather of small host values.
  worker::Communicator& control();

 private:
  struct Ranks {
    int rank = 0;
    int local_rank = 0;
    int world_size = 1;
  };

  /// Everything that may fail before there is an Accelerator.
  struct Start;

  explicit Accelerator(Start start);
  static Result<Start> Meet(const worker::EngineOptions& options,
                            const WorkerEnvironment& environment);
  static Result<Start> FromEnvironment(const AcceleratorOptions& options);

  // accelerator.cc
  void DeclareUnits(std::vector<std::string> class_names);
  std::shared_ptr<worker::ParallelEngine> FindEngine(const torch::nn::Module* module) const;
  void AddEngine(const std::shared_ptr<torch::nn::Module>& module);
  Result<std::shared_ptr<worker::ParallelEngine>> MakeEngine(torch::nn::Module& module);
  AcceleratedOptimizer AddOptimizer(torch::optim::Optimizer& optimizer);
  AcceleratedOptimizer AddOptimizer(std::unique_ptr<worker::Optimizer> optimizer);
  AcceleratedScheduler AddScheduler(torch::optim::LRScheduler& scheduler);
  AcceleratedScheduler AddScheduler(worker::LrScheduler& scheduler);
  void Relink(std::vector<at::Tensor>& parameters) const;
  at::Tensor HeldOf(const at::Tensor& parameter) const;
  std::map<std::string, at::Tensor> StateOf(const torch::nn::Module& module) const;
  void Forget();

  // accelerator_verbs.cc
  void OpenPass();
  void StepOptimizer(worker::OptimizerSlot& slot);
  bool AnyStepWasSkipped() const;
  void Unscale(const std::vector<at::Tensor>& held);
  at::Tensor ClipNorm(const std::vector<at::Tensor>& held, double max_norm, double norm_type);
  void CheckSameEverywhere(const char* verb, const at::Tensor& tensor);
  at::Tensor Gather(const at::Tensor& tensor);
  at::Tensor GatherRealRows(const at::Tensor& tensor);
  at::Tensor Reduce(const at::Tensor& tensor, Reduction reduction);

  /// Outputs of a replicated or plain forward under mixed precision are float32 for the caller.
  void ToFloat(const std::vector<at::Tensor*>& outputs) const;

  // prepare.h
  template <typename Object>
  void PrepareIfModel(const Object& object);
  template <typename Object>
  decltype(auto) PrepareOne(Object&& object);

  worker::DealRule deal_rule() const {
    return {ranks_.rank, ranks_.world_size, options_.split_batches};
  }

  template <typename Module>
  friend class PreparedModel;
  template <typename Loader>
  friend class PreparedLoader;
  friend class AcceleratedOptimizer;
  friend class AcceleratedScheduler;
  friend class Accumulation;
  friend class NoSync;

  struct Prepared {
    std::shared_ptr<torch::nn::Module> module;
    std::shared_ptr<worker::ParallelEngine> engine;
  };

  worker::EngineOptions options_;
  Ranks ranks_;
  std::unique_ptr<worker::ProcessGroups> groups_;
  std::vector<Prepared> models_;                                 // destroyed before the groups
  worker::ShardedEngine* sharded_ = nullptr;                     // the only model's, when it is one
  std::unordered_map<const c10::TensorImpl*, at::Tensor> held_;  // by the module's parameter
  std::vector<std::shared_ptr<worker::OptimizerSlot>> optimizers_;
  std::unique_ptr<worker::GradScaler> scaler_;
  std::vector<const worker::LoaderProgress*> loops_;  // over prepared loaders, the innermost last
  int64_t passes_ = 0;                                // opened by accumulate(models…)
  bool sync_gradients_ = true;
  bool is_in_pass_ = false;
  int no_syncs_ = 0;
};

}  // namespace lr

#include "worker/accelerator/prepare.h"
