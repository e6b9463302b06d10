#pragma once
/// Runs one program to its end: its output line by line, a limit of time, a way to stop it.
/// Blocking, any thread; nothing of the child is left afterwards.

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

struct ChildOptions {
  std::chrono::milliseconds limit{};
  int stop_fd = -1;                                 ///< readable: end the child; -1: never
  std::function<void(std::string_view line)> line;  ///< of both outputs, without its end
};

/// Exit status 0. Otherwise kUnavailable (how it ended), kDeadlineExceeded, kCancelled (stop_fd),
/// kNotFound (it could not be started). The environment is passed as it is, input is empty. The
/// child has a process group of its own, which gets SIGTERM and five seconds later SIGKILL.
Status RunChild(const std::vector<std::string>& arguments, const ChildOptions& options);

}  // namespace lr::worker
