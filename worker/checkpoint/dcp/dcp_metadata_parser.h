#pragma once
/// (pure) `.metadata` of torch 2.3 to 2.15 -> DcpMetadata. Called by DcpDirectory and the fuzzer.
///
/// Only the classes of checkpoints.md 4.2.2 are known, and only as names: nothing that a hostile
/// file says is run. What is read costs memory in proportion to the file. Errors are
/// kInvalidArgument and name the byte or the key.

#include <string_view>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_metadata.h"

namespace lr::worker {

/// Parsed and checked (CheckDcpMetadata). Empty chunks are left out. Unknown attributes are
/// ignored.
Result<DcpMetadata> ParseDcpMetadata(std::string_view bytes);

}  // namespace lr::worker
