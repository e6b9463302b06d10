#pragma once
/// What the engine does once configuration, world and device are known (sharded_training.md 3.2).
/// Made once by whoever makes an Accelerator: the trainer, or the Accelerator of a user's program.

#include <cstdint>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "worker/accelerator/accelerator_config.h"
#include "worker/optim/grad_scaler_state.h"
#include "worker/parallel/parallel_options.h"

namespace lr::worker {

struct EngineOptions {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  int64_t gradient_accumulation_steps = 1;
  /// Sharded runs: every pass reduces its gradients into the shards, which bounds memory to shards;
  /// else only the last of an update does, which saves traffic.
  bool reduces_every_pass = false;
  Topology topology;                           ///< resolved; its product is the world size
  ReplicatedOptions ddp;                       ///< when the topology is not sharded
  ShardedOptions fsdp;                         ///< when it is
  std::optional<c10::ScalarType> autocast;     ///< dtype of forward passes under mixed precision
  std::optional<GradScalerState> grad_scaler;  ///< float16: the loss is scaled
  /// Schedules move with real updates, once per process; else once per call, as the trainer has it.
  bool step_scheduler_with_optimizer = false;
  bool sync_with_dataloader = true;  ///< the last batch of a loader closes an update
  bool split_batches = false;        ///< a loader's batches are cut over the ranks, not dealt
};

EngineOptions MakeEngineOptions(const AcceleratorConfig& config,
                                const Topology& topology,
                                c10::Device device);

/// One line for the log: dtypes of parameters, reduction and outputs, and what autocast does.
std::string DescribePrecision(const EngineOptions& options);

}  // namespace lr::worker
