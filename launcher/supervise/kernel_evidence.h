#pragma once
/// What the kernel counts about a worker that was killed (S-12, S-13): kills for lack of memory in
/// its control group, in the nearest group around it that can be read, or on the whole machine; and
/// whether /dev/shm is full. A few small reads of /proc and /sys per start and per kill.
/// Loop-confined; owned by the WorkerGroup.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>

#include "launcher/plan/assignment.h"

namespace lr::launcher {

class KernelEvidence {
 public:
  /// `root` stands before /proc and /sys; tests pass a folder.
  explicit KernelEvidence(std::string root = "") : root_(std::move(root)) {}

  /// Right after the start: what was counted before says nothing about this worker.
  void Track(pid_t pid);

  /// For a failure that we did not cause; empty when nothing was seen. Each counted kill explains
  /// one SIGKILL; it may also be that of a helper of a worker that then exits with a code.
  std::string Explain(const WorkerEnding& ending);

 private:
  std::string ExplainKill(const WorkerEnding& ending);

  std::string root_;
  std::map<pid_t, std::string> counters_;        ///< the file whose counter covers the worker
  std::map<std::string, int64_t> kills_before_;  ///< by file
};

/// (pure) The number behind `key` in lines of "key number"; nullopt when it is not there.
std::optional<int64_t> CounterIn(const std::string& text, const std::string& key);

}  // namespace lr::launcher
