#pragma once
/// Finds the runs of this user on this machine, from the records that their lr-launch keeps. Reads
/// only; one thread.

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "common/io/json.h"

namespace lr {

struct FoundRun {
  std::string directory;
  Json record;         ///< run.json
  bool alive = false;  ///< its lr-launch still exists

  std::string run_id() const;

  /// "forming", "running", "stopping", "succeeded", "failed"; "lost" when the record does not tell
  /// the end and nobody is left to write it.
  std::string state() const;

  /// Nothing will be added to it.
  bool ended() const;

  std::string control_socket() const;
};

/// Newest first. A record that cannot be read is left out.
std::vector<FoundRun> FindRuns(const EnvironmentReader& environment);

/// Which run an empty name means when none is active.
enum class WhenNoneIsActive { kError, kNewest };

/// The run meant by an id, a unique prefix of one, or a run directory; with an empty `what` the
/// only one that is active. Errors list the candidates.
Result<FoundRun> FindRun(const std::string& what,
                         const EnvironmentReader& environment,
                         WhenNoneIsActive otherwise = WhenNoneIsActive::kError);

/// The record in this run directory.
Result<FoundRun> ReadRun(const std::string& directory);

}  // namespace lr
