#pragma once
/// (pure) What an ending most likely means, read from signal, exit code, what was seen of the
/// kernel and what the program wrote (S-12, S-13). The texts are data: failure_patterns.def. A
/// label never changes policy by itself.

#include <string>

#include "launcher/plan/assignment.h"

namespace lr::launcher {

struct FailureLabel {
  std::string name;        ///< "out of device memory", "peer lost", …; empty: nothing recognised
  std::string evidence;    ///< the line, count or code that led to it
  bool secondary = false;  ///< a consequence of another rank's end
  std::string advice;      ///< what to do next
};

FailureLabel LabelFailure(const WorkerEnding& ending);

/// "SIGKILL" for 9; "signal 77" for unknown numbers.
std::string SignalName(int signal);

/// "exit code 7", "signal 9 (SIGKILL)", with ", core dumped" where it was.
std::string DescribeEnding(const WorkerEnding& ending);

}  // namespace lr::launcher
