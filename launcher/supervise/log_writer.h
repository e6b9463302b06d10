#pragma once
/// Writes the files of the log tree on a thread of its own, so that the disk blocks neither the
/// event loop nor, for long, a worker (L-35). Open(), Write() and Hold() may be called from any
/// thread and never block. A write that fails (disk full) turns all files off, with one warning.
/// While the disk takes bytes, Hold() slows the reader down to its speed; when it stands still,
/// what does not fit into a file's 4 MiB is dropped, oldest first, and a line says how much.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "launcher/supervise/log_file.h"

namespace lr::launcher {

class LogWriter {
 public:
  /// `warn` is called on the writer's thread and neither blocks nor calls back.
  LogWriter(RotationLimits limits, std::function<void(const std::string&)> warn);

  /// Waits while the disk takes bytes, then leaves a stuck writer behind.
  ~LogWriter();

  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// The number of this file, the same for the same path; the file exists soon after.
  int Open(const std::string& path);

  void Write(int file, std::string bytes);

  /// True when the file's backlog is large: `resume` is then called once on the writer's thread as
  /// soon as there is room again, and never after the destructor; it only posts to a loop.
  bool Hold(int file, std::function<void()> resume);

  /// True when everything is written, or given up, before the disk stands still for `limit`.
  bool Flush(std::chrono::milliseconds limit);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lr::launcher
