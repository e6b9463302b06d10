#pragma once
/// (pure) Which rank stores which block of which tensor (checkpoints.md 4.8, 4.9).
///
/// Every rank computes the whole plan from what all of them know; nothing is exchanged. It is the
/// plan that torch makes for the same tensors in the same order: replicated blocks go to whichever
/// rank has the least so far. Cannot fail.

#include <cstdint>
#include <string>
#include <vector>

namespace lr::worker {

/// Rows [first, first + count) of dim 0.
struct DcpRows {
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const DcpRows&) const = default;
};

/// What the sharded engine holds (shard_layout.h).
DcpRows RowsOfShard(int64_t rows, int shard_rank, int shard_size);

/// A rank's place in the mesh [replicate, shard]: global rank = replicate rank * S + shard rank.
struct DcpPlace {
  int shard_rank = 0;
  int shard_size = 1;
  int replicate_rank = 0;
  int replicate_size = 1;

  int rank() const { return replicate_rank * shard_size + shard_rank; }

  int world_size() const { return replicate_size * shard_size; }
};

/// One key, as all ranks know it.
struct DcpProposal {
  std::vector<int64_t> size;  ///< of the whole tensor
  int64_t element_bytes = 0;  ///< 0: a value, not a tensor
  bool is_sharded = false;    ///< on dim 0, over the shard ranks
};

/// A block of a proposal, or the whole of it.
struct DcpBlock {
  size_t proposal = 0;
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;

  bool operator==(const DcpBlock&) const = default;
};

/// For each global rank the blocks of its file in order: values first, then tensors. Shards without
/// rows appear once, as torch writes them.
std::vector<std::vector<DcpBlock>> PlanDcpSave(const std::vector<DcpProposal>& proposals,
                                               int shard_size,
                                               int replicate_size);

}  // namespace lr::worker
