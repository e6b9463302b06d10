#pragma once
/// Where this node's record of a run lies (design: state directory, or --log-dir), with one folder
/// per attempt and worker for its error and log files (L-30, L-36), and the private folder of
/// sockets. Called by the App on the event loop once per attempt; a few mkdir calls. Failures are
/// told and never end a run: it then goes on without a record.

#include <string>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"

namespace lr::launcher {

/// Creates the directory: <log_dir>/<run id>_<8 digits>, or
/// <state home>/lr/runs/<run id>[_<8 digits>] without a log_dir; the digits come from `node_id` and
/// keep several launchers of one run on one machine apart. Empty for log_dir /dev/null.
Result<std::string> CreateRunDirectory(const std::string& log_dir,
                                       const std::string& run_id,
                                       const std::string& node_id,
                                       const EnvironmentReader& environment);

/// Where log files lie without a --log-dir, as torchrun makes it:
/// <temporary directory>/torchelastic_<8 random>/<run id>_<8 digits>.
Result<std::string> CreateTemporaryLogDirectory(const std::string& run_id,
                                                const std::string& node_id,
                                                const EnvironmentReader& environment);

/// Creates <run directory>/attempt_<n>/<local rank>/ for every worker; returns the attempt's
/// folder, empty when `run_directory` is. A folder that is there already is somebody's log (L-36):
/// then attempt_<n>.1 and so on.
Result<std::string> CreateAttemptDirectory(const std::string& run_directory,
                                           int attempt,
                                           int local_size);

/// A folder only this user can enter, short enough for socket paths: $XDG_RUNTIME_DIR/lr, else
/// /tmp/lr-<uid>. Refuses a folder that somebody else owns or may write to.
Result<std::string> CreateSocketDirectory(const EnvironmentReader& environment);

/// (pure) `id` as the name of a folder: other characters than letters, digits, '.', '_' and '-'
/// become '_', and the length is bounded.
std::string FolderName(const std::string& id);

}  // namespace lr::launcher
