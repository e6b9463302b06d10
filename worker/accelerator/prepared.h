#pragma once
/// What lr::Accelerator hands out: models, optimizers, schedules and loaders that know the layout,
/// and the guards of its verbs. All of them are used on the step thread and refer to the
/// Accelerator, which outlives them.

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "worker/accelerator/data_loader.h"
#include "worker/parallel/engine.h"

namespace torch::optim {
class LRScheduler;
class Optimizer;
}  // namespace torch::optim

namespace lr {

class Accelerator;

namespace worker {
class LrScheduler;
class Optimizer;
struct OptimizerSlot;
}  // namespace worker

/// A module in its data-parallel container: call it like the module; `->` reaches the user's own
/// module, whose forward is not to be called around the container. Inputs and outputs are tensors,
/// containers of them, or structs with a VisitTensors overload (tensor_visitor.h).
template <typename Module>
class PreparedModel {
 public:
  PreparedModel(std::shared_ptr<Module> module,
                std::shared_ptr<worker::ParallelEngine> engine,
                const Accelerator& accelerator)
      : module_(std::move(module)), engine_(std::move(engine)), accelerator_(&accelerator) {}

  template <typename... Args>
  auto operator()(Args... args);

  Module* operator->() const { return module_.get(); }

  Module& operator*() const { return *module_; }

 private:
  friend class Accelerator;

  std::shared_ptr<Module> module_;
  std::shared_ptr<worker::ParallelEngine> engine_;
  const Accelerator* accelerator_;
};

/// Steps and clears only on passes that synchronise gradients; with a loss scaler not when
/// gradients of any rank overflowed.
class AcceleratedOptimizer {
 public:
  /// Collective under float16.
  void step();
  void zero_grad();

  /// The last step() on a synchronising pass did not update the weights.
  bool step_was_skipped() const;

  worker::Optimizer& unwrapped() const;

 private:
  friend class Accelerator;

  AcceleratedOptimizer(std::shared_ptr<worker::OptimizerSlot> slot, Accelerator& accelerator)
      : slot_(std::move(slot)), accelerator_(&accelerator) {}

  std::shared_ptr<worker::OptimizerSlot> slot_;
  Accelerator* accelerator_;
};

/// With step_scheduler_with_optimizer: moves when the optimizers really stepped, and then once per
/// process (once with split batches). Without it: once per call.
class AcceleratedScheduler {
 public:
  void step();

 private:
  friend class Accelerator;

  AcceleratedScheduler(std::function<void()> move, const Accelerator& accelerator)
      : move_(std::move(move)), accelerator_(&accelerator) {}

  std::function<void()> move_;
  const Accelerator* accelerator_;
};

/// A loader's batches as this process gets them, on its device: for (auto& batch : loader). One
/// pass at a time.
template <typename Loader>
class PreparedLoader {
 public:
  using Pass = worker::DealtPass<Loader>;
  using Batch = typename Pass::Batch;

  PreparedLoader(std::shared_ptr<Loader> loader, Accelerator& accelerator)
      : loader_(std::move(loader)), accelerator_(&accelerator) {}

  /// Reads one batch ahead, so that the last one is known as such.
  class Iterator {
   public:
    Batch& operator*() { return current_->batch; }

    Batch* operator->() { return &current_->batch; }

    Iterator& operator++() {
      current_ = std::move(next_);
      next_ = current_ ? pass_.Next() : std::nullopt;
      if (current_) {
        worker::MoveTo(worker::TensorsIn(current_->batch), device_);
        scope_.progress() = {!next_, current_->rows, current_->real_rows};
      }
      return *this;
    }

    bool operator==(std::default_sentinel_t /*end*/) const { return !current_; }

   private:
    friend class PreparedLoader;

    Iterator(Pass pass, worker::LoaderScope scope, c10::Device device)
        : pass_(std::move(pass)), scope_(std::move(scope)), device_(device), next_(pass_.Next()) {
      ++*this;
    }

    Pass pass_;
    worker::LoaderScope scope_;
    c10::Device device_;
    std::optional<worker::DealtBatch<Batch>> current_;
    std::optional<worker::DealtBatch<Batch>> next_;
  };

  Iterator begin();

  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<Loader> loader_;
  Accelerator* accelerator_;
};

/// See Accelerator::accumulate.
class [[nodiscard]] Accumulation {
 public:
  explicit Accumulation(Accelerator& accelerator);
  ~Accumulation();
  Accumulation(const Accumulation&) = delete;
  Accumulation& operator=(const Accumulation&) = delete;

 private:
  Accelerator* accelerator_;
};

/// See Accelerator::no_sync.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(Accelerator& accelerator);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Accelerator* accelerator_;
};

/// See Accelerator::main_process_first. A barrier that fails when the guard ends is reported by the
/// next collective call.
class [[nodiscard]] MainProcessFirst {
 public:
  explicit MainProcessFirst(Accelerator& accelerator);
  ~MainProcessFirst();
  MainProcessFirst(const MainProcessFirst&) = delete;
  MainProcessFirst& operator=(const MainProcessFirst&) = delete;

 private:
  Accelerator* accelerator_;
};

}  // namespace lr
