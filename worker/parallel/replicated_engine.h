#pragma once
/// DDP: the full module on every rank, gradients averaged over all ranks while backward runs, on
/// c10d's own Reducer.
///
/// Semantics and defaults of torch.nn.parallel.DistributedDataParallel (sharded_training.md 6.2):
/// rank 0's parameters and buffers everywhere at the start, buckets of 25 MiB (the first 1 MiB) in
/// reversed registration order, globally unused parameters keep an undefined gradient, an
/// accumulation window exchanges nothing before its last pass.

#include <memory>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "common/base/status.h"
#include "worker/parallel/engine.h"
#include "worker/parallel/parallel_options.h"

namespace c10d {
class Logger;
class Reducer;
}  // namespace c10d

namespace torch::nn {
class Module;
}

namespace lr::worker {

class ReplicatedEngine final : public ParallelEngine {
 public:
  /// Collective. Checks that all ranks hold the same parameters (count and shapes), then broadcasts
  /// rank 0's values. `module` must outlive the engine and keep its parameters.
  static Result<std::unique_ptr<ReplicatedEngine>> Create(
      torch::nn::Module& module,
      c10::intrusive_ptr<c10d::ProcessGroup> group,
      const ReplicatedOptions& options);
  ~ReplicatedEngine() override;

  void BeginForward(const std::vector<at::Tensor*>& inputs, bool sync) override;
  void EndForward(const std::vector<at::Tensor*>& outputs, bool sync) override;
  void Backward(const at::Tensor& loss, bool sync) override;

 private:
  ReplicatedEngine(c10::intrusive_ptr<c10d::ProcessGroup> group, const ReplicatedOptions& options);
  void Build(torch::nn::Module& module);

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  ReplicatedOptions options_;
  std::vector<at::Tensor>
      buffers_;  ///< sent from rank 0 before each forward; empty when they never change
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace lr::worker
