#pragma once
/// Starts one child process: own session and process group, clean signals, three standard streams
/// and nothing else, and dies with the launcher, it and its process group (S-1, S-3). Called on the
/// main thread only: the kernel ties the parent-death signal to the thread that started the child,
/// and the main thread lives as long as the process. Safe beside other threads: the child shares
/// our memory and runs a handful of system calls until exec (a vfork-class start), so nothing is
/// copied.

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/base/status.h"
#include "launcher/plan/worker_variables.h"
#include "launcher/supervise/lifeline.h"

namespace lr::launcher {

/// A pseudo-terminal that changes no bytes, as large as ours when we have one: programs that write
/// to its write_end see a terminal.
Result<Pipe> MakeTerminal();

/// Makes this pseudo-terminal as large as ours; does nothing to a pipe.
void FitTerminal(int fd);

/// A closed console or a dead sweeper must not end the launcher: SIGPIPE is ignored here, while
/// children get it as it was before. Call once at the start of main().
void IgnoreBrokenPipes();

struct SpawnRequest {
  std::string executable;  ///< path; PATH is not searched
  std::vector<std::string> argv;
  Variables environment;
  int stdin_fd = 0;  ///< descriptors of ours that become 0, 1, 2
  int stdout_fd = 1;
  int stderr_fd = 2;
  std::vector<int> cpus = {};  ///< the only ones that it may use; empty: as this process
};

struct SpawnedProcess {
  pid_t pid = -1;
  Descriptor pidfd;         ///< readable when the process has ended
  uint64_t start_time = 0;  ///< of the kernel, tells a recycled pid apart
  Lifeline lifeline;        ///< whoever drops it kills what is left of the child's process group
};

/// Returns after the child's exec succeeded, or with the reason why it did not (kNotFound,
/// kPermissionDenied, kResourceExhausted, kInvalidArgument), the child then already reaped.
Result<SpawnedProcess> Spawn(const SpawnRequest& request);

}  // namespace lr::launcher
