#pragma once
/// lr's library face: one class, lr::Accelerator, under the verbs of Python's Accelerate. The only
/// header that programs outside of this project include; link lr::accelerator (find_package(lr)).
///
///   lr::Accelerator accelerator({.parallelism = {.dp_shard = -1}});         // FSDP; {}: DDP
///   auto [model, optimizer, loader] = accelerator.prepare(net, adamw, data);
///   for (auto& batch : loader) {
///     const auto pass = accelerator.accumulate(model);
///     const at::Tensor loss = LossOf(model(batch.data), batch.target);
///     accelerator.backward(loss);
///     optimizer.step();
///     optimizer.zero_grad();
///   }
///
/// Blocks that shall be sharded one by one derive from lr::UnitModule (unit_module.h). Which of
/// their classes are: options.fsdp.wrap_modules or min_num_params, else what a member
/// `std::vector<std::string> wrap_modules()` of the model names, else all of them. A struct of
/// tensors that goes through a model or a loader overloads VisitTensors in its own namespace
/// (tensor_visitor.h).

#include "worker/accelerator/accelerator.h"
#include "worker/parallel/unit_module.h"

namespace lr {

using worker::AccumulationMode;
using worker::MixedPrecision;
using worker::ParameterDtype;
using worker::UnitModule;

}  // namespace lr
