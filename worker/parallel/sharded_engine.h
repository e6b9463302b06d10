#pragma once
/// FSDP2 and HSDP: every rank holds its rows of every parameter, gradient and optimizer state;
/// blocks gather their parameters for compute and free them again (sharded_training.md 1, 2).
///
/// Forward: a unit gathers, runs, frees; the next unit of the order seen last time is gathered
/// meanwhile. Backward: a hook on a unit's outputs gathers it again, hooks on its gradient
/// accumulators say when it is done; it frees and its reduction is started. Collectives are started
/// in one order on all ranks whatever each of them uses: gathers by descending call, reductions by
/// descending first call. Which parameters anybody uses is agreed on before backward starts.
/// Unsupported: double backward, retain_graph, a second backward of one forward.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/autograd/function.h>

#include "common/base/status.h"
#include "worker/parallel/engine.h"
#include "worker/parallel/parallel_options.h"
#include "worker/parallel/parameter_use.h"
#include "worker/parallel/sharded_parameter.h"
#include "worker/parallel/sharded_unit.h"
#include "worker/parallel/unit_selection.h"

namespace lr::worker {

/// Collective over the shard group: the whole parameter, in the shard's dtype and on its device.
at::Tensor GatherParameter(const ShardGroups& groups, const ShardedParameter& parameter);

class ShardedEngine final : public ParallelEngine, private UnitObserver {
 public:
  /// Collective: takes rank 0's parameters and buffers everywhere, cuts and frees. Errors: those of
  /// SelectUnits; kFailedPrecondition when ranks hold different trees. `root` outlives the engine;
  /// its parameters() are no longer to be used.
  static Result<std::unique_ptr<ShardedEngine>> Create(torch::nn::Module& root,
                                                       ShardGroups groups,
                                                       const ShardedOptions& options);
  ~ShardedEngine() override;

  void BeginForward(const std::vector<at::Tensor*>& inputs, bool sync) override;
  void EndForward(const std::vector<at::Tensor*>& outputs, bool sync) override;
  void Backward(const at::Tensor& loss, bool sync) override;

  /// In the order of the module tree's registration within each unit; stable over the run.
  std::vector<ShardedParameter> parameters() const;

  const ShardGroups& groups() const { return groups_; }

  /// What selecting the units remarked.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Names of the units in wrap order, the root last; for the log.
  std::vector<std::string> unit_names() const;

  /// Elements of whole parameters that are present now; for tests and reports.
  int64_t resident_elements() const;

 private:
  class AccumulateHook;
  class InputGate;

  /// One run of a unit's forward in grad mode.
  struct Call {
    size_t unit = 0;
    std::vector<c10::intrusive_ptr<torch::autograd::Node>> outputs;
    bool is_over = false;   ///< its forward
    bool has_gate = false;  ///< its inputs tell when its backward is over
    bool is_used = false;   ///< by this rank's loss
    int32_t use_count = 0;  ///< ranks whose loss uses it
  };

  /// What one backward knows of a unit.
  struct UnitPass {
    int gradients_left = 0;
    int gates_left = 0;
    bool is_ready = false;  ///< all local gradients are here
    bool is_freed = false;
  };

  struct Reduction {
    size_t unit = 0;
    PendingReduction pending;
  };

  ShardedEngine(ShardGroups groups, const ShardedOptions& options);
  Status Build(torch::nn::Module& root);
  Status CheckEqualTrees(const UnitSelection& selection) const;
  at::Tensor DifferingRanks(const at::Tensor& mine) const;
  void BroadcastParameter(const UnitParameter& one) const;
  void HookAccumulators();

  void BeforeForward(const UnitModule& unit, const std::vector<at::Tensor*>& inputs) override;
  void AfterForward(const UnitModule& unit, const std::vector<at::Tensor*>& outputs) override;
  void Enter(size_t unit, const std::vector<at::Tensor*>& inputs);
  bool GateInputs(size_t unit, const std::vector<at::Tensor*>& inputs);
  void PrefetchAfter(size_t unit);

  void PrepareBackward(const at::Tensor& loss);
  void CheckBackward() const;
  void PreBackward(size_t position);
  bool LaunchGather(size_t position);
  void LaunchGathersDownTo(size_t position);
  void OnGradient(size_t unit, size_t slot);
  void OnGate(size_t unit);
  void MaybeFree(size_t unit);
  void UnitReady(size_t unit);
  void OrderReductions();
  void LaunchReductions();
  void CompleteOldestReduction();
  void ReduceIgnored();
  void FinishBackward();
  void ReleaseAll();

  size_t root() const { return units_.size() - 1; }

  ShardGroups groups_;
  ShardedOptions options_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;  ///< the root last
  std::vector<UnitModule*> modules_;                 ///< of units_
  std::map<const UnitModule*, size_t> unit_of_;
  std::vector<UnitParameter> ignored_;
  std::vector<std::string> warnings_;
  std::vector<c10::intrusive_ptr<torch::autograd::Node>> accumulators_;
  std::vector<std::vector<torch::autograd::Node*>> accumulator_of_;  ///< [unit][slot], null: frozen

  // Forward
  std::vector<size_t> order_;       ///< units of the forward that runs
  std::vector<size_t> last_order_;  ///< of the one before
  std::vector<Call> calls_;
  bool expects_backward_ = false;

  // Backward
  bool sync_ = true;
  bool in_backward_ = false;  ///< started by Backward
  bool is_uniform_ = true;    ///< every use count is none or all
  ParameterUse use_;
  size_t cursor_ = 0;  ///< calls from here on have had their gather
  std::vector<UnitPass> passes_;
  std::vector<size_t> reduction_order_;
  size_t next_reduction_ = 0;
  std::deque<Reduction> reductions_;
  std::vector<ShardedUnit::Scratch> scratch_;
};

}  // namespace lr::worker
