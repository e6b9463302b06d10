#pragma once
/// (pure) Which settings of the engine cannot be meant (sharded_training.md 0.3), before anything
/// is made. Called by the trainer's configuration check and by the Accelerator of a user's program.

#include "common/base/status.h"
#include "worker/accelerator/accelerator_config.h"

namespace lr::worker {

/// kInvalidArgument naming the field as the command line spells it. `on_cpu`: the run is known to
/// train on the CPU.
Status CheckAcceleratorConfig(const AcceleratorConfig& config,
                              const ParallelismConfig& degrees,
                              bool on_cpu);

}  // namespace lr::worker
