#pragma once
/// The files of one checkpoint, written into a directory that nobody reads yet: LeRobot's names,
/// contents and order (checkpoints.md 3.1, 3.3), each flushed, the manifest last.
///
///   WriteCheckpointFiles   main rank: what it alone writes
///   WritePretrainedFiles   the part of it that a policy is loaded from, to be published alone
///   WriteShards            every rank: its part of the folders written by all
///   SealCheckpoint         main rank, when all have written: what makes it a checkpoint
///
/// Thread: the checkpoint writer's; blocking. Each stops at the first failure and names the file;
/// the directory is then left as it is.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/contract/checkpoint_layout.h"
#include "worker/checkpoint/checkpoint_contents.h"

namespace lr::worker {

/// Called before each durable operation with a word for it; tests die or fail here. A failed status
/// stands for the failure of that operation. Empty in production.
using FaultPoint = std::function<Status(std::string_view operation)>;

inline Status Reach(const FaultPoint& fault_point, std::string_view operation) {
  return fault_point ? fault_point(operation) : Status();
}

/// Returns what it wrote.
Result<std::vector<CheckpointFile>> WriteCheckpointFiles(const CheckpointSnapshot& snapshot,
                                                         const std::filesystem::path& directory,
                                                         const FaultPoint& fault_point = {});

/// `directory`/pretrained_model alone.
Status WritePretrainedFiles(const CheckpointSnapshot& snapshot,
                            const std::filesystem::path& directory);

/// This rank's file of every sharded folder; returns its reports (DcpSave::Report), one per folder.
/// kFailedPrecondition when the directory is not there: made by another host, not seen by this one.
Result<std::vector<std::string>> WriteShards(const std::vector<ShardedFolder>& shards,
                                             const std::filesystem::path& directory,
                                             const FaultPoint& fault_point = {});

/// `.metadata` of every sharded folder, from `reports[folder][rank]`, then the manifest, which
/// names `manifest.files` and theirs. Returns the bytes of them all.
Result<uint64_t> SealCheckpoint(CheckpointManifest manifest,
                                const std::vector<ShardedFolder>& shards,
                                const std::vector<std::vector<std::string>>& reports,
                                const std::filesystem::path& directory,
                                const FaultPoint& fault_point = {});

}  // namespace lr::worker
