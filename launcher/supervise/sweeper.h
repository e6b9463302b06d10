#pragma once
/// The process that cleans up after SIGKILL of the launcher (S-3, design decision 8): forked from
/// lr-launch before any thread or gRPC exists, in its own session, owning neither pipes nor exit
/// statuses of workers. It waits until its link to the launcher closes, then kills what is left of
/// the run and exits: what carries the marker, what is in a worker's session, and what it saw below
/// the launcher in its last look (one per second, fewer on machines with very many processes).
///
/// It is a fork without exec: at that moment the launcher has one thread and a small heap, so the
/// copy is cheap and nothing has to be loaded again (re-executing the binary costs about 10 ms of
/// the start-up budget).

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>

#include "common/base/status.h"
#include "launcher/supervise/process.h"

namespace lr::launcher {

class Sweeper {
 public:
  /// `marker`: "NAME=value" in the environment of every worker of this launcher. Call before the
  /// first thread starts.
  static Result<Sweeper> Start(const std::string& marker);

  Sweeper(Sweeper&&) = default;
  Sweeper& operator=(Sweeper&&) = default;
  ~Sweeper();

  /// Tells it a worker's session, so that helpers with a cleaned environment are found, too.
  void Watch(pid_t session, uint64_t start_time);

  pid_t pid() const { return pid_; }

  /// The ordered ending: everything was swept, it may go.
  void Dismiss();

 private:
  Sweeper(pid_t pid, Descriptor link) : pid_(pid), link_(std::move(link)) {}

  pid_t pid_ = -1;
  Descriptor link_;
};

}  // namespace lr::launcher
