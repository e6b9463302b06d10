#pragma once
/// Receives the signals of lr-launch on the event loop. A signal that was ignored when the process
/// started (nohup) stays ignored (L-51). Loop-confined.

#include <functional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

namespace lr::launcher {

class SignalWatch {
 public:
  using OnSignal = std::function<void(int signal)>;

  SignalWatch(boost::asio::io_context& loop, const std::vector<int>& signals, OnSignal on_signal);

  /// Back to the dispositions of the start: the next signal ends the process.
  void Stop();

 private:
  void Await();

  boost::asio::signal_set set_;
  OnSignal on_signal_;
};

/// The calling thread stops as a terminal expects it of a job (SIGTSTP); returns when it is
/// continued.
void SuspendSelf();

}  // namespace lr::launcher
