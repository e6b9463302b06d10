#pragma once
/// An optimizer as the Accelerator keeps it. Shared by the AcceleratedOptimizer that the program
/// holds. Step thread.

#include <memory>

#include "worker/optim/optimizer.h"

namespace lr::worker {

struct OptimizerSlot {
  std::unique_ptr<Optimizer> optimizer;
  bool step_was_skipped = false;
};

}  // namespace lr::worker
