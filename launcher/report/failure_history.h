#pragma once
/// (pure) The failures of a run as its record tells them, over all attempts and bounded in size. A
/// node sees its own workers fail at once; what the others saw comes with the end of the attempt.
/// Owned by RunReport, on the event loop.

#include <vector>

#include "common/io/json.h"
#include "launcher/plan/assignment.h"

namespace lr::launcher {

class FailureHistory {
 public:
  static constexpr size_t kKeptPerAttempt = 32;  ///< the earliest, where the cause is
  static constexpr size_t kKept = 128;           ///< the newest

  void Begin(int attempt);

  /// A worker of this node; one that ended well is no failure.
  void Add(const WorkerEnding& ending);

  /// The attempt is over: `failures` of all nodes, in the order they happened. Those of this node
  /// stay when nothing came.
  void Complete(const std::vector<WorkerEnding>& failures);

  /// Oldest first.
  Json ToJson() const;

 private:
  Json earlier_ = Json::array();
  Json current_ = Json::array();
  int attempt_ = 0;
};

}  // namespace lr::launcher
