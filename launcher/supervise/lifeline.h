#pragma once
/// Ends a process group when this process ends, however it does, without anybody's help: also when
/// whoever would clean up after it is killed at the same moment (S-3). The kernel sends a signal
/// of our choice to the owner of an open pipe end when the other end closes (fcntl(2): O_ASYNC,
/// F_SETOWN, F_SETSIG). Both ends are ours alone, so nothing is visible to the group.
///
/// Closing order: the signal is sent only if the watched end is still open when the other closes,
/// and a process that dies closes its descriptors in ascending or in descending order, as the
/// kernel likes. Hence two pipes, watched at opposite ends.
///
/// Made by the process that starts a child, armed by that child before exec. Thread-safe as a
/// value. Where the kernel refuses (it never did), the sweeper is what is left.

#include <sys/types.h>

#include "common/base/status.h"
#include "launcher/supervise/pipe.h"

namespace lr::launcher {

class Lifeline {
 public:
  Lifeline() = default;

  static Result<Lifeline> Create();

  /// From here on the end of the creator is SIGKILL for this process group. Async-signal-safe:
  /// called between clone and exec, by a member of the group.
  void Arm(pid_t group) const;

 private:
  Lifeline(Pipe watched_below, Pipe watched_above);

  Pipe watched_below_;  ///< its read end has the lower number and is the watched one
  Pipe watched_above_;  ///< its write end has the higher number and is the watched one
};

}  // namespace lr::launcher
