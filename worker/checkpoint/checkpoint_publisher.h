#pragma once
/// What happens to directories under `<output_dir>/checkpoints`: a temporary one is made, takes its
/// final name by one rename, `last` follows by another; leftovers and superseded checkpoints are
/// removed.
///
/// Main rank only; one call at a time (step thread or writer thread). Every step leaves the tree
/// readable: `last` names a complete checkpoint at each instant, except where a file system cannot
/// exchange two names (Publish()).

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/checkpoint/checkpoint_files.h"

namespace lr::worker {

class CheckpointPublisher {
 public:
  CheckpointPublisher(std::filesystem::path output_dir,
                      const std::string& run_id,
                      FaultPoint fault_point = {});

  std::filesystem::path PathOf(const std::string& name) const { return checkpoints_ / name; }

  /// Checks that `last` can be switched and that `bytes` fit on the disk, then makes
  /// `<step_name>.tmp-<pid>-<random>`, whose random part begins with a mark of this run. Returns
  /// its name.
  Result<std::string> CreateTemporary(const std::string& step_name, uint64_t bytes);

  /// Gives the complete temporary directory its final name and points `last` to it. An existing
  /// directory of that name is exchanged in one step (two renames where the file system cannot),
  /// then dropped if it was a complete checkpoint and renamed aside if not. On failure, up to the
  /// flush that confirms `last`, the old state is restored. Returns notes for the log.
  Result<std::vector<std::string>> Publish(const std::string& temporary,
                                           const std::string& step_name);

  /// After a successful save: removes this run's temporary directories and what retention gives up.
  /// `keep` 0: all stay. Never fails; says what it did and could not do.
  std::vector<std::string> Cleanup(int64_t keep);

  /// After a failed save: keeps at most two of this run's temporary directories.
  void TrimAbandoned();

 private:
  enum class Displaced { kNothing, kComplete, kUnfinished };

  Status CheckLast() const;
  Status CheckSpace(uint64_t bytes) const;
  Status TakeName(const std::string& temporary,
                  const std::string& step_name,
                  Displaced displaced,
                  const std::string& aside);
  Status SwitchLast(const std::string& step_name);
  Displaced WhatStandsAt(const std::string& step_name) const;
  Status RestoreLast(const std::string& step_name, const Result<std::string>& previous);
  std::vector<std::string> SettleDisplaced(const std::string& temporary,
                                           const std::string& step_name,
                                           Displaced displaced,
                                           const std::string& aside);
  Status Flush();
  bool IsOurs(const std::string& temporary) const;
  std::vector<std::filesystem::path> OwnTemporaries() const;
  void Remove(const std::filesystem::path& path, std::vector<std::string>& lines) const;

  std::filesystem::path checkpoints_;
  std::string run_mark_;  ///< of the run's temporary names; empty without a run id
  FaultPoint fault_point_;
  std::set<std::string> created_;  ///< temporary names of this process
};

}  // namespace lr::worker
