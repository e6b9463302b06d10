#pragma once
/// Model and optimizer of a sharded run as entries of a distributed checkpoint, and back
/// (checkpoints.md 4.6, 4.7): the keys of accelerate's `pytorch_model_fsdp_0` and `optimizer_0`.
///
/// Step thread. Saving refers to the live tensors; DcpSave::TakeSnapshot copies what a rank writes.
/// Loading checks everything that can be checked before it changes anything; every rank reads only
/// its own rows, from a checkpoint of any number of ranks. Persistent buffers are given as
/// parameters that are not sharded.

#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_directory.h"
#include "worker/checkpoint/dcp/dcp_save.h"
#include "worker/optim/optimizer.h"
#include "worker/parallel/sharded_parameter.h"

namespace lr::worker {

/// `model.<name>`, in this order; a tied parameter under each of its names.
std::vector<DcpEntry> ModelEntries(const std::vector<ShardedParameter>& parameters);

/// `optimizer.state.<name>.<state>` and `optimizer.param_groups.<i>.<option>`. Parameters that were
/// never updated have no state. kInvalidArgument when a group has a parameter that is not listed,
/// or state that is neither a scalar nor like the shard.
Result<std::vector<DcpEntry>> OptimizerEntries(const std::vector<ShardedParameter>& parameters,
                                               const Optimizer& optimizer);

/// Fills every shard. One error names all missing keys; shapes must be equal, dtypes are converted.
/// Returns notes: keys that the model does not have, checksums.
Result<std::vector<std::string>> LoadModelEntries(DcpDirectory& directory,
                                                  const std::vector<ShardedParameter>& parameters,
                                                  const DcpPlace& place);

/// Restores groups and state, from both forms of the keys (with `params` lists, and flattened).
/// Parameters without any state in the checkpoint have none afterwards.
Result<std::vector<std::string>> LoadOptimizerEntries(
    DcpDirectory& directory,
    const std::vector<ShardedParameter>& parameters,
    const DcpPlace& place,
    Optimizer& optimizer);

}  // namespace lr::worker
