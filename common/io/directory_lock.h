#pragma once
/// One run per directory: an flock on `<directory>/.lr-lock`, whose content names the owner.
///
/// The kernel drops the lock when its last holder dies, so a lock of a dead owner is simply free.
/// Processes of the same run share it: a restarted worker gets in while its predecessor is still
/// ending. Blocking (file system calls only).

#include <optional>
#include <string>

#include "common/base/status.h"

namespace lr {

/// Who holds a directory. An empty run id equals no other.
struct LockOwner {
  std::string run_id;
  std::string host;
  int64_t pid = 0;
};

/// This process as the owner for `run_id`.
LockOwner ThisProcess(const std::string& run_id);

class DirectoryLock {
 public:
  /// Takes the lock of an existing directory. kFailedPrecondition when another run holds it: the
  /// message names that run, its host and pid. kUnimplemented when the file system has no locks.
  static Result<DirectoryLock> Acquire(const std::string& directory, const LockOwner& owner);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_ = -1;
};

/// The last owner that was written, alive or not; nullopt when the directory was never locked.
std::optional<LockOwner> ReadLockOwner(const std::string& directory);

}  // namespace lr
