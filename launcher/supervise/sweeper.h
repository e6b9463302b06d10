#pragma once
/// The processes that clean up after SIGKILL of the launcher (S-3, design decision 8): two, forked
/// from lr-launch before any thread or gRPC exists, each in its own session, owning neither pipes
/// nor exit statuses of workers. They wait until their link to the launcher closes, then kill what
/// is left of the run and exit: what carries the marker, what is in a worker's session, and what
/// they saw below the launcher in their last look (one per second, fewer on machines with very many
/// processes). Two, because each watches the other and forks it anew when somebody kills it.
///
/// They are forks without exec: at that moment the launcher has one thread and a small heap, so the
/// copy is cheap and nothing has to be loaded again (re-executing the binary costs about 10 ms of
/// the start-up budget).
///
/// Both killed within the milliseconds that a fork takes are gone for the rest of the run. When the
/// launcher is killed then, the kernel still ends every worker with its process group (lifeline.h);
/// only helpers that left that group live on.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <sys/types.h>

#include "common/base/status.h"
#include "launcher/supervise/process.h"

namespace lr::launcher {

class SweeperBoard;

class Sweeper {
 public:
  /// `marker`: "NAME=value" in the environment of every worker of this launcher. Call before the
  /// first thread starts. Returns when both are there.
  static Result<Sweeper> Start(const std::string& marker);

  Sweeper(Sweeper&&) noexcept;
  Sweeper& operator=(Sweeper&&) noexcept;
  ~Sweeper();

  /// Tells them a worker's session, so that helpers with a cleaned environment are found, too.
  void Watch(pid_t session, uint64_t start_time);

  /// The two that are there now.
  std::set<pid_t> pids() const;

  /// The ordered ending: everything was swept, they may go. Waits until they have, at most 1 s.
  void Dismiss();

 private:
  Sweeper(std::unique_ptr<SweeperBoard> board, Descriptor link, Descriptor alive);

  std::unique_ptr<SweeperBoard> board_;
  Descriptor link_;   ///< closes when the launcher ends, however it does
  Descriptor alive_;  ///< closes when both sweepers have ended
};

}  // namespace lr::launcher
