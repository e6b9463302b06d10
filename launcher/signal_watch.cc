#include "launcher/signal_watch.h"

#include <csignal>
#include <utility>

namespace lr::launcher {
namespace {

bool IgnoredNow(int signal) {
  struct sigaction action {};

  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalWatch::SignalWatch(boost::asio::io_context& loop,
                         const std::vector<int>& signals,
                         OnSignal on_signal)
    : set_(loop), on_signal_(std::move(on_signal)) {
  for (const int signal : signals) {
    if (!IgnoredNow(signal)) {
      boost::system::error_code error;
      set_.add(signal, error);  // the parser refused numbers that cannot be handled
    }
  }
  Await();
}

void SignalWatch::Stop() {
  boost::system::error_code error;
  set_.clear(error);
}

void SignalWatch::Await() {
  set_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (!error) {
      Await();
      on_signal_(signal);
    }
  });
}

void SuspendSelf() {
  raise(SIGSTOP);
}

}  // namespace lr::launcher
