// Adam and AdamW on at::_fused_adam_ / at::_fused_adamw_ (Kingma and Ba 2014; Loshchilov and Hutter
// 2017). Thread: step thread.
#include <ATen/ATen.h>

#include "worker/optim/algorithms.h"

namespace lr::worker::internal {

namespace {

struct AdamLists {
  std::vector<at::Tensor> params, grads, exp_avgs, exp_avg_sqs, steps;
};

Optimizer::State FreshState(const at::Tensor& param) {
  return {{"step", at::zeros({}, param.options().dtype(at::kFloat))},
          {"exp_avg", at::zeros_like(param)},
          {"exp_avg_sq", at::zeros_like(param)}};
}

}  // namespace

void Adam::Step() {
  const at::NoGradGuard no_grad;
  int64_t id = 0;
  for (const OptimizerGroup& group : groups_) {
    StepGroup(group, id);
    id += static_cast<int64_t>(group.params.size());
  }
}

void Adam::StepGroup(const OptimizerGroup& group, int64_t first_id) {
  ByKernel<AdamLists> calls;
  for (size_t i = 0; i < group.params.size(); ++i) {
    const at::Tensor& param = group.params[i];
    if (!param.grad().defined()) {
      continue;
    }
    State& state = state_[first_id + static_cast<int64_t>(i)];
    if (state.empty()) {
      state = FreshState(param);
    }
    AdamLists& lists = calls[KeyOf(param)];
    lists.params.push_back(param);
    lists.grads.push_back(GradientLike(param));
    lists.exp_avgs.push_back(state.at("exp_avg"));
    lists.exp_avg_sqs.push_back(state.at("exp_avg_sq"));
    lists.steps.push_back(state.at("step"));
  }
  const auto& [beta1, beta2] = group.options.betas;
  for (auto& [key, lists] : calls) {
    at::_foreach_add_(lists.steps, 1);
    const auto kernel = decoupled_ ? &at::_ops::_fused_adamw_::call : &at::_ops::_fused_adam_::call;
    kernel(lists.params,
           lists.grads,
           lists.exp_avgs,
           lists.exp_avg_sqs,
           /*max_exp_avg_sqs=*/{},
           lists.steps,
           group.lr,
           beta1,
           beta2,
           group.options.weight_decay,
           group.options.eps,
           /*amsgrad=*/false,
           /*maximize=*/false,
           /*grad_scale=*/{},
           /*found_inf=*/{});
  }
}

}  // namespace lr::worker::internal
