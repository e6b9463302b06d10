#pragma once
/// (pure) Which rows of which stored blocks make up a range of rows of a tensor, from any number of
/// source ranks to any number of readers (checkpoints.md 4.9). Called by DcpDirectory.
///
/// Only dim 0 is cut on this side, so every element of the rows that are taken from a block is
/// wanted. Cannot fail: the metadata's checks have shown that the blocks tile the tensor.

#include <cstdint>
#include <vector>

#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/dcp/dcp_save_plan.h"

namespace lr::worker {

/// Consecutive rows of one block. A tensor without dims has one row.
struct DcpPiece {
  const DcpChunk* chunk = nullptr;
  int64_t first_row = 0;   ///< within the block
  int64_t rows = 0;        ///< > 0
  int64_t target_row = 0;  ///< within the wanted range

  bool operator==(const DcpPiece&) const = default;
};

/// In the order of their place on disk, so that files are read forwards. Points into `tensor`.
std::vector<DcpPiece> PlanDcpRead(const DcpTensor& tensor, DcpRows wanted);

}  // namespace lr::worker
