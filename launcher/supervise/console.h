#pragma once
/// The launcher's own stdout and stderr, written by threads of their own so that a slow reader
/// blocks neither the event loop nor a worker (L-35). Write() may be called from any thread and
/// never blocks; what does not fit into a source's 4 MiB is dropped, oldest first, and a line says
/// how much.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/supervise/output_chunk.h"

namespace lr::launcher {

class ConsoleWriter;

/// One of the two console streams a source writes to.
enum class ConsoleStream { kOut, kErr };

class Console {
 public:
  /// Writes to these descriptors, which stay the caller's; both may be the same file, which then
  /// has one writer.
  Console(int out_fd, int err_fd);

  /// Waits a moment for the rest, then leaves a stuck writer behind.
  ~Console();

  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Announces a stream of a worker; its chunks carry the returned number.
  int AddSource(ConsoleStream stream, const std::string& prefix);

  void Write(ConsoleStream stream, int source, OutputChunk chunk);

  /// A finished text of the launcher itself, newline included, to stderr.
  void Say(std::string_view text);

  /// True when everything was written within `limit`.
  bool Flush(std::chrono::milliseconds limit);

 private:
  ConsoleWriter& writer(ConsoleStream stream);

  std::shared_ptr<ConsoleWriter> out_;
  std::shared_ptr<ConsoleWriter> err_;
  int next_source_ = 0;
};

}  // namespace lr::launcher
