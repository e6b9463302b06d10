#pragma once
/// An optimizer of LibTorch as one of ours, so that the engine knows one kind. Step thread.

#include <memory>

#include "common/base/status.h"
#include "worker/optim/optimizer.h"

namespace torch::optim {
class Optimizer;
}

namespace lr::worker {

/// `optimizer` outlives the result and keeps its parameters, which are the groups' of the result.
/// kUnimplemented for one that needs a closure (LBFGS).
Result<std::unique_ptr<Optimizer>> AdaptOptimizer(torch::optim::Optimizer& optimizer);

}  // namespace lr::worker
