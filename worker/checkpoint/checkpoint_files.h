#pragma once
/// The files of one checkpoint, written into a directory that nobody reads yet: LeRobot's names,
/// contents and order (checkpoints.md 3.1, 3.3), each flushed, the manifest last.
///
/// Thread: the checkpoint writer's; blocking. Stops at the first failure and names the file; the
/// directory is then left as it is.

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

/// Returns the manifest that it wrote.
Result<CheckpointManifest> WriteCheckpointFiles(const CheckpointSnapshot& snapshot,
                                                const std::filesystem::path& directory,
                                                const std::string& run_id,
                                                const FaultPoint& fault_point = {});

}  // namespace lr::worker
