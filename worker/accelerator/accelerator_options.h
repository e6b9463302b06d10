#pragma once
/// What a user's program tells lr::Accelerator; the defaults are those of the Accelerate library.
/// Plain data.

#include <cstdint>

#include "worker/accelerator/accelerator_config.h"

namespace lr {

struct AcceleratorOptions {
  worker::MixedPrecision mixed_precision = worker::MixedPrecision::kNo;
  int64_t gradient_accumulation_steps = 1;
  worker::AccumulationMode accumulation_mode = worker::AccumulationMode::kNosync;
  bool cpu = false;  ///< stay on the CPU; else the first of cuda, mps, xpu, cpu that is usable
  /// Schedules move only with real updates, and then once per process, because so many batches were
  /// consumed; false: once per call of step().
  bool step_scheduler_with_optimizer = true;
  /// The last batch of a prepared loader closes an update, also a short one.
  bool sync_with_dataloader = true;
  /// Every batch of a prepared loader is cut over the processes; else whole batches are dealt.
  bool split_batches = false;
  worker::ParallelismConfig parallelism = {};  ///< {.dp_shard = -1}: FSDP over all processes
  worker::FsdpConfig fsdp = {};
  worker::DdpConfig ddp = {};
  worker::GradScalerConfig grad_scaler = {};
};

}  // namespace lr
