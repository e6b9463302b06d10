#include "worker/accelerator/accelerator.h"

namespace lr {

void AcceleratedOptimizer::step() {
  if (accelerator_->sync_gradients()) {
    optimizer_->Step();
  }
}

void AcceleratedOptimizer::zero_grad() {
  if (accelerator_->sync_gradients()) {
    optimizer_->ZeroGrad();
  }
}

Accelerator::Accelerator(const AcceleratorOptions& options,
                         const WorkerEnvironment& environment,
                         std::unique_ptr<worker::ProcessGroups> groups)
    : options_(options), environment_(environment), groups_(std::move(groups)) {}

Accelerator::~Accelerator() {
  engines_.clear();
}

Result<std::unique_ptr<Accelerator>> Accelerator::Create(const AcceleratorOptions& options,
                                                         const WorkerEnvironment& environment) {
  LR_CHECK(options.gradient_accumulation_steps >= 1,
           "accumulation steps {}",
           options.gradient_accumulation_steps);
  worker::ProcessGroupOptions group_options;
  group_options.cuda = options.device.is_cuda();
  group_options.device_index = options.device.index();
  LR_ASSIGN(std::unique_ptr<worker::ProcessGroups> groups,
            worker::ProcessGroups::Create(environment, group_options));
  return std::unique_ptr<Accelerator>(new Accelerator(options, environment, std::move(groups)));
}

Result<worker::ParallelEngine*> Accelerator::MakeEngine(torch::nn::Module& module) {
  if (environment_.world_size == 1) {
    engines_.push_back(std::make_unique<worker::PlainEngine>());
  } else {
    LR_ASSIGN(std::unique_ptr<worker::ParallelEngine> engine,
              worker::ReplicatedEngine::Create(module, groups_->data(), options_.ddp));
    engines_.push_back(std::move(engine));
  }
  return engines_.back().get();
}

AcceleratedOptimizer Accelerator::prepare(std::unique_ptr<worker::Optimizer> optimizer) const {
  return {std::move(optimizer), *this};
}

void Accelerator::accumulate(int64_t counter) {
  sync_gradients_ = counter % options_.gradient_accumulation_steps == 0;
}

at::Tensor Accelerator::clip_grad_norm_(const worker::Optimizer& optimizer, double max_norm) const {
  if (!sync_gradients_ || max_norm <= 0) {
    return {};
  }
  std::vector<at::Tensor> params;
  for (const worker::OptimizerGroup& group : optimizer.groups()) {
    params.insert(params.end(), group.params.begin(), group.params.end());
  }
  return worker::ClipGradNorm(params, max_norm);
}

}  // namespace lr
