#pragma once
/// Reads one stream of one worker on the event loop: its bytes go to the console in whole lines, to
/// its log file, line by line to the filtered file, and into the tail for the failure report. Stops
/// reading only while the log file's disk is busy, for a second at most (L-35). Loop-confined.

#include <chrono>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "launcher/plan/stream_output.h"
#include "launcher/supervise/console.h"
#include "launcher/supervise/log_writer.h"
#include "launcher/supervise/process.h"
#include "launcher/supervise/tail_buffer.h"

namespace lr::launcher {

/// Where output goes; both outlive whoever holds this.
struct OutputSinks {
  Console& console;
  LogWriter& logs;
};

class OutputPump {
 public:
  /// `read_end` of the pipe. `loop` outlives the pump.
  OutputPump(boost::asio::io_context& loop,
             OutputSinks sinks,
             ConsoleStream stream,
             StreamOutput output,
             Descriptor read_end);
  ~OutputPump();

  /// Takes what is in the pipe now without waiting, and passes on an unfinished line. After the
  /// worker's end: a helper may still hold the pipe, so its end is not waited for.
  void Drain();

  /// After our terminal changed its size.
  void FitTerminal();

  const TailBuffer& tail() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lr::launcher
