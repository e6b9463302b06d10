#pragma once
/// Saves one distributed checkpoint directory (checkpoints.md 4.1, 4.8; the caller renames it into
/// place, section 7).
///
///   Create(entries, place)   every rank: which blocks are mine; nothing is exchanged
///   TakeSnapshot()           step thread: copies of these blocks in host memory, all that blocks
///                            training
///   WriteShard(directory)    any thread: `__<rank>_0.distcp`, flushed
///   Report(shard)            what the main rank must know of it; the caller gathers these texts
///   WriteMetadata(…)         main rank, any thread: `.metadata`, which makes the directory a
///                            checkpoint
///
/// All ranks must pass the same keys, shapes and types in the same order; the reports carry a
/// digest of them, which WriteMetadata compares.

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "common/contract/checkpoint_layout.h"
#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/dcp/dcp_save_plan.h"
#include "worker/checkpoint/dcp/dcp_shard_file.h"

namespace lr::worker {

/// One key of the state: this rank's shard of a tensor, a tensor that all ranks have, or a value.
struct DcpEntry {
  std::string key;
  DcpPath path;
  DcpItem item;
  std::vector<int64_t> size = {};  ///< of the whole tensor
  bool is_sharded = false;         ///< on dim 0 by RowsOfShard
};

class DcpSave {
 public:
  /// kInvalidArgument for types that cannot be written, for shards that do not have the rows of
  /// their rank, for a key that is there twice.
  static Result<DcpSave> Create(const std::vector<DcpEntry>& entries, const DcpPlace& place);

  /// Replaces the tensors that this rank writes by copies of its own on the host. Throws what
  /// LibTorch throws.
  void TakeSnapshot();

  /// About what this rank writes.
  uint64_t bytes() const;

  /// Needs the directory to exist.
  Result<DcpShardFile> WriteShard(const std::filesystem::path& directory) const;

  /// Frees the data; what follows needs only names and places.
  void DropData() { items_.clear(); }

  /// `shard`: what WriteShard returned.
  std::string Report(const DcpShardFile& shard) const;

  /// `reports`: of all ranks, by rank. Returns every file of the directory, with paths relative to
  /// it. kFailedPrecondition when ranks saved different things.
  Result<std::vector<CheckpointFile>> WriteMetadata(const std::filesystem::path& directory,
                                                    const std::vector<std::string>& reports,
                                                    const std::string& save_id) const;

 private:
  DcpSave() = default;

  std::string Digest() const;
  Result<DcpMetadata> MakeMetadata(const std::vector<DcpShardFile>& shards) const;

  int rank_ = 0;
  std::vector<DcpEntry> keys_;  ///< without their items
  std::vector<const DcpDtype*> dtypes_;
  std::vector<std::vector<DcpBlock>> plan_;  ///< of all ranks
  std::vector<DcpItem> items_;               ///< of this rank's blocks
};

}  // namespace lr::worker
