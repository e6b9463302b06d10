/// The engine behind the verbs.
#include "worker/accelerator/accelerator.h"

#include <map>

namespace lr {

void AcceleratedOptimizer::step() {
  if (!accelerator_->sync_gradients()) {
    return;
  }
  if (!accelerator_->scaler_) {
    optimizer_->Step();
    return;
  }
  worker::GradScaler& scaler = *accelerator_->scaler_;
  step_was_skipped_ = !scaler.Step(*optimizer_, [this](at::Tensor& value) {
    SumOverWorld(accelerator_->groups_->shards(), "overflows", value);
  });
  scaler.Update();
}

void AcceleratedOptimizer::zero_grad() {
  if (accelerator_->sync_gradients()) {
    optimizer_->ZeroGrad();
  }
}

Accelerator::Accelerator(const AcceleratorOptions& options,
                         const WorkerEnvironment& environment,
                         std::unique_ptr<worker::ProcessGroups> groups)
    : options_(options), environment_(environment), groups_(std::move(groups)) {
  if (options_.grad_scaler) {
    scaler_.emplace(*options_.grad_scaler, options_.device);
  }
}

Accelerator::~Accelerator() {
  engine_.reset();
}

Result<std::unique_ptr<Accelerator>> Accelerator::Create(const AcceleratorOptions& options,
                                                         const WorkerEnvironment& environment) {
  LR_CHECK(options.gradient_accumulation_steps >= 1,
           "accumulation steps {}",
           options.gradient_accumulation_steps);
  worker::ProcessGroupOptions group_options;
  group_options.cuda = options.device.is_cuda();
  group_options.device_index = options.device.index();
  LR_CHECK(options.topology.dp_world_size() == environment.world_size,
           "dp_replicate={} x dp_shard={} for {} processes",
           options.topology.dp_replicate,
           options.topology.dp_shard,
           environment.world_size);
  group_options.shard_size = static_cast<int>(options.topology.dp_shard);
  LR_ASSIGN(std::unique_ptr<worker::ProcessGroups> groups,
            worker::ProcessGroups::Create(environment, group_options));
  return std::unique_ptr<Accelerator>(new Accelerator(options, environment, std::move(groups)));
}

void Accelerator::DeclareUnits(std::vector<std::string> class_names) {
  worker::WrapRequest& wrap = options_.fsdp.wrap;
  if (wrap.class_names.empty() && !wrap.min_num_params) {
    wrap.class_names = std::move(class_names);
    wrap.names_are_declared = true;
  }
}

void Accelerator::ToFloat(const std::vector<at::Tensor*>& outputs) const {
  if (options_.autocast && sharded_ == nullptr) {
    for (at::Tensor* output : outputs) {
      if (output->is_floating_point()) {
        *output = output->to(at::kFloat);
      }
    }
  }
}

Result<worker::ParallelEngine*> Accelerator::MakeEngine(torch::nn::Module& module) {
  LR_CHECK(engine_ == nullptr, "a second model is prepared");
  if (options_.autocast) {  // the optimizer works on float32 masters
    for (at::Tensor& parameter : module.parameters()) {
      if (parameter.requires_grad() && parameter.scalar_type() != at::kFloat) {
        parameter.set_data(parameter.to(at::kFloat));
      }
    }
  }
  if (options_.topology.uses_sharded_engine) {
    LR_ASSIGN(std::unique_ptr<worker::ShardedEngine> engine,
              worker::ShardedEngine::Create(module, groups_->shards(), options_.fsdp));
    sharded_ = engine.get();
    engine_ = std::move(engine);
  } else if (environment_.world_size == 1) {
    engine_ = std::make_unique<worker::PlainEngine>();
  } else {
    LR_ASSIGN(engine_, worker::ReplicatedEngine::Create(module, groups_->data(), options_.ddp));
  }
  return engine_.get();
}

Result<AcceleratedOptimizer> Accelerator::prepare(std::unique_ptr<worker::Optimizer> optimizer) {
  if (sharded_ != nullptr) {
    std::map<std::string, at::Tensor> held;
    for (const worker::ShardedParameter& one : sharded_->parameters()) {
      for (const std::string& name : one.names) {
        held[name] = one.shard;
      }
    }
    for (worker::OptimizerGroup& group : optimizer->groups()) {
      for (size_t i = 0; i < group.params.size(); ++i) {
        const auto found = held.find(group.names.at(i));
        if (found == held.end()) {
          return NotFound("the optimizer's parameter '{}' is not in the prepared model",
                          group.names[i]);
        }
        group.params[i] = found->second;
      }
    }
  }
  return AcceleratedOptimizer(std::move(optimizer), *this);
}

void Accelerator::accumulate(int64_t counter) {
  sync_gradients_ = counter % options_.gradient_accumulation_steps == 0;
}

at::Tensor Accelerator::clip_grad_norm_(worker::Optimizer& optimizer, double max_norm) {
  if (!sync_gradients_ || max_norm <= 0) {
    return {};
  }
  if (scaler_) {
    scaler_->Unscale(optimizer);
  }
  std::vector<at::Tensor> params;
  for (const worker::OptimizerGroup& group : optimizer.groups()) {
    params.insert(params.end(), group.params.begin(), group.params.end());
  }
  if (sharded_ == nullptr) {
    return worker::ClipGradNorm(params, max_norm);
  }
  worker::NormOverRanks ranks;
  ranks.sum = [this](at::Tensor& squared) {
    SumOverShards(sharded_->groups(), "gradient norms", squared);
  };
  for (const worker::ShardedParameter& one : sharded_->parameters()) {
    if (!one.is_sharded && sharded_->groups().shard_rank != 0) {
      ranks.counted_elsewhere.insert(one.shard.unsafeGetTensorImpl());
    }
  }
  return worker::ClipGradNorm(params, max_norm, &ranks);
}

}  // namespace lr
