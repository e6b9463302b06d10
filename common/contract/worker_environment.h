#pragma once
/// (pure) The environment contract between a launcher and a worker: torchrun's variables and our
/// LR_* additions, in one place for both sides (launcher_and_service.md 1.4, sharded_training.md
/// 0.4).

#include <functional>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace lr {

/// Reads one variable; nullopt when unset. Tests pass a map, programs pass ProcessEnvironment().
using EnvironmentReader = std::function<std::optional<std::string>(const std::string& name)>;

EnvironmentReader ProcessEnvironment();

/// What a worker learns from its launcher. Without any of the five standard variables: one process,
/// rank 0 of 1.
struct WorkerEnvironment {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int local_world_size = 1;
  std::string master_addr;
  int master_port = 0;
  bool use_agent_store =
      false;  ///< TORCHELASTIC_USE_AGENT_STORE=True: connect as a client, also on rank 0
  int restart_count = 0;
  std::string run_id;
  std::string control_socket;  ///< LR_CONTROL_SOCKET; empty: none
  std::string resume_from;     ///< LR_RESUME_FROM; empty: none
  std::string error_file;      ///< TORCHELASTIC_ERROR_FILE; empty: none

  bool launched() const { return !master_addr.empty(); }
};

/// Some but not all of the five variables, or values that cannot be: an error naming the variables.
Result<WorkerEnvironment> ReadWorkerEnvironment(const EnvironmentReader& read);

}  // namespace lr
