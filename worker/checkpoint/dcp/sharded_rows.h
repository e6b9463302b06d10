#pragma once
/// Which rows of a stored tensor a rank's shard is; shared by model and optimizer.

#include <string>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/sharded_state.h"

namespace lr::worker {

/// All rows when it is not sharded; one for a scalar.
DcpRows RowsOf(const ShardedParameter& parameter, const DcpPlace& place);

/// The stored tensor has the parameter's full shape, and the shard has this rank's rows of it.
Status CheckStoredShape(const DcpMetadata& metadata,
                        const std::string& key,
                        const ShardedParameter& parameter,
                        const DcpPlace& place);

}  // namespace lr::worker
