#pragma once
/// The data-parallel engine behind a prepared module: what happens around forward and backward in
/// the layout in force.
///
/// One engine per prepared module, owned by the Accelerator, used by the step thread. Layouts:
/// plain (one process), replicated (DDP), sharded (FSDP, HSDP). All calls of one step are made by
/// all ranks in the same order. Collective failures surface as c10d exceptions, as everywhere in
/// tensor code; train_step.cc and the Accelerator turn them into a Status.

#include <vector>

#include <ATen/core/Tensor.h>

namespace lr::worker {

class ParallelEngine {
 public:
  virtual ~ParallelEngine() = default;

  /// Before the module's forward, with its input tensors, which may be replaced. `sync`: the
  /// gradients of this pass will be exchanged.
  virtual void BeginForward(const std::vector<at::Tensor*>& inputs, bool sync) = 0;

  /// After the forward, with every tensor it returned, which may be replaced.
  virtual void EndForward(const std::vector<at::Tensor*>& outputs, bool sync) = 0;

  /// Gradients of `loss`; on return they are those of the data-parallel mean if the pass was
  /// started with sync.
  virtual void Backward(const at::Tensor& loss, bool sync) = 0;
};

/// One process: nothing to exchange.
class PlainEngine final : public ParallelEngine {
 public:
  void BeginForward(const std::vector<at::Tensor*>& /*inputs*/, bool /*sync*/) override {}

  void EndForward(const std::vector<at::Tensor*>& /*outputs*/, bool /*sync*/) override {}

  void Backward(const at::Tensor& loss, bool sync) override;
};

}  // namespace lr::worker
