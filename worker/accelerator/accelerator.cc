/// Life, and what prepare() makes; the verbs of the loop are accelerator_verbs.cc.
#include "worker/accelerator/accelerator.h"

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#ifdef LR_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include "common/contract/worker_environment.h"
#include "worker/accelerator/accelerator_config_check.h"
#include "worker/accelerator/device_probe.h"
#include "worker/accelerator/optimizer_slot.h"
#include "worker/accelerator/status_error.h"
#include "worker/accelerator/topology.h"
#include "worker/accelerator/torch_optimizer.h"
#include "worker/comm/process_groups.h"
#include "worker/optim/grad_scaler.h"
#include "worker/optim/schedule.h"
#include "worker/parallel/replicated_engine.h"
#include "worker/parallel/sharded_engine.h"

namespace lr {

struct Accelerator::Start {
  worker::EngineOptions options;
  Ranks ranks;
  std::unique_ptr<worker::ProcessGroups> groups;
};

namespace {

worker::AcceleratorConfig ConfigOf(const AcceleratorOptions& options) {
  worker::AcceleratorConfig config;
  config.mixed_precision = options.mixed_precision;
  config.gradient_accumulation = {options.gradient_accumulation_steps, options.accumulation_mode};
  config.fsdp = options.fsdp;
  config.ddp = options.ddp;
  config.grad_scaler = options.grad_scaler;
  return config;
}

}  // namespace

Accelerator::Accelerator(const AcceleratorOptions& options)
    : Accelerator(ValueOrThrow(FromEnvironment(options))) {}

Accelerator::Accelerator(Start start)
    : options_(std::move(start.options)), ranks_(start.ranks), groups_(std::move(start.groups)) {
  if (options_.grad_scaler) {
    scaler_ = std::make_unique<worker::GradScaler>(*options_.grad_scaler, options_.device);
  }
}

Accelerator::~Accelerator() = default;

Result<std::unique_ptr<Accelerator>> Accelerator::Create(const worker::EngineOptions& options,
                                                         const WorkerEnvironment& environment) {
  LR_ASSIGN(Start start, Meet(options, environment));
  return std::unique_ptr<Accelerator>(new Accelerator(std::move(start)));
}

Result<Accelerator::Start> Accelerator::FromEnvironment(const AcceleratorOptions& options) {
  LR_ASSIGN(const WorkerEnvironment environment, ReadWorkerEnvironment(ProcessEnvironment()));
  LR_ASSIGN(const worker::DeviceChoice device,
            worker::ChooseDevice(options.cpu ? std::optional<std::string>("cpu") : std::nullopt,
                                 worker::ProbeDevices(),
                                 environment.local_rank,
                                 environment.world_size));
  const worker::AcceleratorConfig config = ConfigOf(options);
  LR_TRY(worker::CheckAcceleratorConfig(
      config, options.parallelism, device.backend == worker::Backend::kCpu));
  LR_ASSIGN(const worker::ResolvedTopology resolved,
            worker::ResolveTopology(
                {.parallelism = options.parallelism, .world_size = environment.world_size}));
  worker::EngineOptions engine =
      worker::MakeEngineOptions(config, resolved.topology, worker::DeviceOf(device));
  engine.step_scheduler_with_optimizer = options.step_scheduler_with_optimizer;
  engine.sync_with_dataloader = options.sync_with_dataloader;
  engine.split_batches = options.split_batches;
  return Meet(engine, environment);
}

Result<Accelerator::Start> Accelerator::Meet(const worker::EngineOptions& options,
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
  const Ranks ranks = {environment.rank, environment.local_rank, environment.world_size};
  return Start{options, ranks, std::move(groups)};
}

worker::Communicator& Accelerator::control() {
  return groups_->control();
}

std::vector<worker::GroupSequence> Accelerator::collectives_entered() const {
  return groups_->Sequences();
}

// ---- models

void Accelerator::DeclareUnits(std::vector<std::string> class_names) {
  worker::WrapRequest& wrap = options_.fsdp.wrap;
  if (wrap.class_names.empty() && !wrap.min_num_params) {
    wrap.class_names = std::move(class_names);
    wrap.names_are_declared = true;
  }
}

std::shared_ptr<worker::ParallelEngine> Accelerator::FindEngine(
    const torch::nn::Module* module) const {
  for (const Prepared& one : models_) {
    if (one.module.get() == module) {
      return one.engine;
    }
  }
  return nullptr;
}

void Accelerator::AddEngine(const std::shared_ptr<torch::nn::Module>& module) {
  if (options_.topology.uses_sharded_engine) {
    DeclareUnits(worker::UnitClassesIn(*module));
  }
  models_.push_back({module, ValueOrThrow(MakeEngine(*module))});
  if (sharded_ != nullptr) {
    for (const worker::ShardedParameter& one : sharded_->parameters()) {
      held_[one.parameter.unsafeGetTensorImpl()] = one.shard;
      held_[one.shard.unsafeGetTensorImpl()] = one.shard;
    }
  }
}

Result<std::shared_ptr<worker::ParallelEngine>> Accelerator::MakeEngine(torch::nn::Module& module) {
  if (options_.autocast) {  // the optimizer works on float32 masters
    for (at::Tensor& parameter : module.parameters()) {
      if (parameter.requires_grad() && parameter.scalar_type() != at::kFloat) {
        parameter.set_data(parameter.to(at::kFloat));
      }
    }
  }
  if (options_.topology.uses_sharded_engine) {
    if (sharded_ != nullptr) {
      return Unimplemented(
          "a second model in a sharded run: give both to prepare() as submodules of one module");
    }
    LR_ASSIGN(std::unique_ptr<worker::ShardedEngine> engine,
              worker::ShardedEngine::Create(module, groups_->shards(), options_.fsdp));
    sharded_ = engine.get();
    return std::shared_ptr<worker::ParallelEngine>(std::move(engine));
  }
  if (ranks_.world_size == 1) {
    return std::shared_ptr<worker::ParallelEngine>(std::make_shared<worker::PlainEngine>());
  }
  LR_ASSIGN(std::unique_ptr<worker::ReplicatedEngine> engine,
            worker::ReplicatedEngine::Create(module, groups_->data(), options_.ddp));
  return std::shared_ptr<worker::ParallelEngine>(std::move(engine));
}

std::map<std::string, at::Tensor> Accelerator::StateOf(const torch::nn::Module& module) const {
  std::map<std::string, at::Tensor> state;
  for (const auto& item : module.named_buffers()) {
    state[item.key()] = item.value().detach();
  }
  if (sharded_ == nullptr) {
    for (const auto& item : module.named_parameters()) {
      state[item.key()] = item.value().detach();
    }
    return state;
  }
  for (const worker::ShardedParameter& one : sharded_->parameters()) {
    const at::Tensor whole = worker::GatherParameter(sharded_->groups(), one);
    for (const std::string& name : one.names) {
      state[name] = whole.to(options_.device);
    }
  }
  return state;
}

void Accelerator::Forget() {
  optimizers_.clear();
  held_.clear();
  sharded_ = nullptr;
  models_.clear();
  passes_ = 0;
  sync_gradients_ = true;
#ifdef LR_CUDA
  if (options_.device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
#endif
}

// ---- optimizers and schedules

at::Tensor Accelerator::HeldOf(const at::Tensor& parameter) const {
  if (!options_.topology.uses_sharded_engine) {
    return parameter;
  }
  const auto found = held_.find(parameter.unsafeGetTensorImpl());
  if (found == held_.end()) {
    ThrowUnlessOk(NotFound(
        "a parameter of shape [{}] belongs to no prepared model, and in a sharded run it would "
        "not be trained: pass model and optimizer to one prepare() call, or prepare the model "
        "first",
        fmt::join(parameter.sizes(), ", ")));
  }
  return found->second;
}

void Accelerator::Relink(std::vector<at::Tensor>& parameters) const {
  for (at::Tensor& parameter : parameters) {
    parameter = HeldOf(parameter);
  }
}

AcceleratedOptimizer Accelerator::AddOptimizer(std::unique_ptr<worker::Optimizer> optimizer) {
  for (worker::OptimizerGroup& group : optimizer->groups()) {
    Relink(group.params);
  }
  optimizers_.push_back(
      std::make_shared<worker::OptimizerSlot>(worker::OptimizerSlot{std::move(optimizer)}));
  return {optimizers_.back(), *this};
}

AcceleratedOptimizer Accelerator::AddOptimizer(torch::optim::Optimizer& optimizer) {
  if (options_.topology.uses_sharded_engine && !optimizer.state().empty()) {
    ThrowUnlessOk(FailedPrecondition(
        "the optimizer has state of {} whole parameters already, which a sharded run cannot take "
        "over: prepare it before its first step (torch::optim::Adagrad makes state when it is "
        "made, and cannot be sharded)",
        optimizer.state().size()));
  }
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    Relink(group.params());
  }
  return AddOptimizer(ValueOrThrow(worker::AdaptOptimizer(optimizer)));
}

AcceleratedScheduler Accelerator::AddScheduler(torch::optim::LRScheduler& scheduler) {
  return {[&scheduler] { scheduler.step(); }, *this};
}

AcceleratedScheduler Accelerator::AddScheduler(worker::LrScheduler& scheduler) {
  return {[&scheduler] { scheduler.Step(); }, *this};
}

}  // namespace lr
