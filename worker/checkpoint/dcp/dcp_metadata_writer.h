#pragma once
/// (pure) DcpMetadata -> `.metadata` for torch 2.4 to 2.15. Called by the save (dcp_save.h) on the
/// main rank, last. Cannot fail on metadata that CheckDcpMetadata accepts.
///
/// Five tensor properties are written, not the six of torch 2.15: both 2.11 and 2.15 read five,
/// only 2.15 reads six (checkpoints.md 4.2.2). No checkpoint path is written (it may be private).

#include <string>

#include "worker/checkpoint/dcp/dcp_metadata.h"

namespace lr::worker {

/// `save_id`: any text that names this save; torch writes a random UUID.
std::string EncodeDcpMetadata(const DcpMetadata& metadata, const std::string& save_id);

}  // namespace lr::worker
