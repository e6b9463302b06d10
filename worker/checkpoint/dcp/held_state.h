#pragma once
/// A module's whole state as one rank holds it, and made whole again: what sharded files and
/// gathered ones are written from and read into. Step thread.

#include <vector>

#include "worker/checkpoint/safetensors.h"
#include "worker/comm/shard_groups.h"
#include "worker/parallel/sharded_parameter.h"

namespace torch::nn {
class Module;
}

namespace lr::worker {

/// Parameters and buffers in the order of StateDict(), each tensor once with all its names.
/// `sharded`: those of the sharded engine; the rest, and without an engine all, are whole. The
/// tensors are the live ones.
std::vector<ShardedParameter> HeldState(const torch::nn::Module& module,
                                        const std::vector<ShardedParameter>& sharded);

/// Collective over the shard group. With `keep` the whole state under all names, in host memory of
/// its own; else nothing. Peak memory beside that: one whole tensor on the device. Throws what
/// LibTorch throws.
NamedTensors GatherState(const std::vector<ShardedParameter>& held,
                         const ShardGroups& groups,
                         bool keep);

}  // namespace lr::worker
