#pragma once
/// (pure) From the configuration to what the engine does: sharding, precision of parameters,
/// compute and reduction (sharded_training.md 3.2). Called once by whoever makes an Accelerator.

#include <string>

#include "worker/accelerator/accelerator.h"
#include "worker/accelerator/accelerator_config.h"

namespace lr {

AcceleratorOptions MakeAcceleratorOptions(const worker::AcceleratorConfig& config,
                                          const worker::Topology& topology,
                                          c10::Device device);

/// One line for the log: dtypes of parameters, reduction and outputs, and what autocast does.
std::string DescribePrecision(const AcceleratorOptions& options);

}  // namespace lr
