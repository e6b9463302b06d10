#include "worker/accelerator/torch_optimizer.h"

#include <torch/optim/lbfgs.h>
#include <torch/optim/optimizer.h>

namespace lr::worker {

namespace {

/// Rates live in LibTorch's own options, where its schedules set them; a rate that is set here is
/// handed over with the next step.
class TorchOptimizer final : public Optimizer {
 public:
  explicit TorchOptimizer(torch::optim::Optimizer& optimizer)
      : Optimizer(GroupsOf(optimizer)), optimizer_(optimizer) {
    for (const OptimizerGroup& group : groups_) {
      rates_.push_back(group.lr);
    }
  }

  void Step() override {
    for (size_t i = 0; i < rates_.size(); ++i) {
      if (groups_[i].lr != rates_[i]) {
        rates_[i] = groups_[i].lr;
        optimizer_.param_groups()[i].options().set_lr(rates_[i]);
      }
    }
    optimizer_.step();
  }

 private:
  static std::vector<OptimizerGroup> GroupsOf(torch::optim::Optimizer& optimizer) {
    std::vector<OptimizerGroup> groups;
    for (torch::optim::OptimizerParamGroup& one : optimizer.param_groups()) {
      OptimizerGroup& group = groups.emplace_back();
      group.params = one.params();
      group.lr = one.options().get_lr();
    }
    return groups;
  }

  torch::optim::Optimizer& optimizer_;
  std::vector<double> rates_;
};

}  // namespace

Result<std::unique_ptr<Optimizer>> AdaptOptimizer(torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<torch::optim::LBFGS*>(&optimizer) != nullptr) {
    return Unimplemented(
        "torch::optim::LBFGS evaluates the loss again inside its step, which a prepared optimizer "
        "does not do; use AdamW, Adam, SGD, RMSprop or Adagrad");
  }
  return std::unique_ptr<Optimizer>(new TorchOptimizer(optimizer));
}

}  // namespace lr::worker
