// Stochastic gradient descent on at::_fused_sgd_. A momentum buffer starts as the first gradient,
// undamped, as in torch. Thread: step thread.
#include <array>

#include <ATen/ATen.h>

#include "worker/optim/algorithms.h"

namespace lr::worker::internal {

namespace {

struct SgdLists {
  std::vector<at::Tensor> params, grads, momentum_buffers;
};

}  // namespace

void Sgd::Step() {
  const at::NoGradGuard no_grad;
  int64_t id = 0;
  for (const OptimizerGroup& group : groups_) {
    StepGroup(group, id);
    id += static_cast<int64_t>(group.params.size());
  }
}

void Sgd::StepGroup(const OptimizerGroup& group, int64_t first_id) {
  std::array<ByKernel<SgdLists>, 2> calls;  // [1]: parameters whose buffer this step creates
  const bool has_momentum = group.options.momentum != 0.0;
  for (size_t i = 0; i < group.params.size(); ++i) {
    const at::Tensor& param = group.params[i];
    if (!param.grad().defined()) {
      continue;
    }
    bool is_first_step = false;
    at::Tensor buffer;
    if (has_momentum) {
      State& state = state_[first_id + static_cast<int64_t>(i)];
      is_first_step = state.empty();
      if (is_first_step) {
        state["momentum_buffer"] = at::empty_like(param);
      }
      buffer = state.at("momentum_buffer");
    }
    SgdLists& lists = calls[is_first_step ? 1 : 0][KeyOf(param)];
    lists.params.push_back(param);
    lists.grads.push_back(GradientLike(param));
    if (has_momentum) {
      lists.momentum_buffers.push_back(buffer);
    }
  }
  for (const bool is_first_step : {false, true}) {
    for (auto& [key, lists] : calls[is_first_step ? 1 : 0]) {
      at::_fused_sgd_(lists.params,
                      lists.grads,
                      lists.momentum_buffers,
                      group.options.weight_decay,
                      group.options.momentum,
                      group.lr,
                      group.options.dampening,
                      group.options.nesterov,
                      /*maximize=*/false,
                      is_first_step);
    }
  }
}

}  // namespace lr::worker::internal
