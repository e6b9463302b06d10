#pragma once
/// Reads one stream of one worker on the event loop: bytes go to the console in whole lines and
/// into the tail for the failure report. Never stops reading, so the worker is never blocked by us.
/// Loop-confined.

#include <chrono>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "launcher/supervise/console.h"
#include "launcher/supervise/process.h"
#include "launcher/supervise/tail_buffer.h"

namespace lr::launcher {

class OutputPump {
 public:
  /// `read_end` of the pipe; `prefix` as in LinePrefixer. `loop` and `console` outlive the pump.
  OutputPump(boost::asio::io_context& loop,
             Console& console,
             ConsoleStream stream,
             const std::string& prefix,
             Descriptor read_end);
  ~OutputPump();

  /// Takes what is in the pipe now without waiting, and passes on an unfinished line. After the
  /// worker's end: helpers that still hold the pipe are not waited for.
  void Drain();

  const TailBuffer& tail() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lr::launcher
