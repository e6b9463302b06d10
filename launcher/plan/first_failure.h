#pragma once
/// (pure) Which ending of a run was the cause of the others, and what each ending most likely means
/// (S-13, S-14 in their simple form). Called by the rendezvous host when it closes a run and by the
/// failure report of every node.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/assignment.h"

namespace lr::launcher {

/// What kind of ending it was, read from exit code, signal and last lines. A label never changes
/// policy.
struct FailureLabel {
  std::string
      name;  ///< "out of host memory", "import error", "peer lost", …; empty: nothing recognised
  std::string evidence;    ///< the line or code that led to it
  bool secondary = false;  ///< a consequence of another rank's end
};

FailureLabel LabelFailure(const WorkerEnding& ending);

struct FirstFailure {
  std::optional<WorkerEnding> root_cause;  ///< nullopt when no worker failed by itself
  std::vector<WorkerEnding> failures;      ///< every unsuccessful ending, earliest first
  std::string reason;                      ///< one sentence
  bool only_secondary = false;             ///< the first cause itself was not seen
};

/// Drops endings that our own signals caused, sets aside secondary ones and takes the earliest of
/// the rest; when only secondary ones exist, the earliest of those, and says so.
FirstFailure ChooseFirstFailure(std::vector<WorkerEnding> endings);

/// "SIGKILL" for 9; "signal 77" for unknown numbers.
std::string SignalName(int signal);

/// "exit code 7", "signal 9 (SIGKILL)", with ", core dumped" where it was.
std::string DescribeEnding(const WorkerEnding& ending);

}  // namespace lr::launcher
