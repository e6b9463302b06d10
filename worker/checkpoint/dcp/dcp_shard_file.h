#pragma once
/// Writes `__<rank>_0.distcp`: one torch.save archive per item, back to back, equal byte for byte
/// to what torch 2.15 writes (checkpoints.md 4.3, 4.4). Called by the save (dcp_save.h), on the
/// writer's thread; blocking. Errors name the file or the item.

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/dcp/dcp_value.h"
#include "worker/checkpoint/durable_file.h"

namespace lr::worker {

/// What one item holds. Tensors may be on any device and of any strides.
using DcpItem = std::variant<at::Tensor, DcpValue>;

struct DcpShardFile {
  WrittenFile file;
  std::vector<DcpLocation> locations;  ///< of the items, in their order
};

/// "__<rank>_0.distcp".
std::string DcpShardName(int rank);

/// Writes the items in this order; the file is flushed and appears whole. Without items it is
/// empty. Peak memory: one tensor, and only for those not contiguous on the host.
Result<DcpShardFile> WriteDcpShard(const std::filesystem::path& directory,
                                   int rank,
                                   const std::vector<DcpItem>& items);

}  // namespace lr::worker
