// The pending request of a rank, and the signals that raise it.
#include <array>
#include <csignal>
#include <unistd.h>

#include "common/base/check.h"
#include "worker/control/control.h"

namespace lr::worker {

void ControlInbox::Raise(ControlWord word, int signal) {
  const auto wanted = static_cast<uint8_t>(word);
  uint8_t current = word_.load();
  while (current < wanted && !word_.compare_exchange_weak(current, wanted)) {
  }
  int none = 0;
  if (signal != 0 && word >= ControlWord::kCheckpointAndStop) {
    stop_signal_.compare_exchange_strong(none, signal);
  }
}

ControlWord ControlInbox::pending() const {
  return static_cast<ControlWord>(word_.load());
}

void ControlInbox::Clear(ControlWord acted_on) {
  uint8_t current = word_.load();
  while (current <= static_cast<uint8_t>(acted_on) && current != 0 &&
         !word_.compare_exchange_weak(current, 0)) {
  }
}

namespace {

static_assert(std::atomic<uint8_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "the inbox is written by signal handlers");

ControlInbox* signal_inbox = nullptr;
std::atomic<bool> interrupted{false};

void OnSignal(int signal) {
  const bool interrupting = signal == SIGINT || signal == SIGTERM;
  if (interrupting && interrupted.exchange(true)) {
    _exit(128 + signal);  // asked twice: at once
  }
  const ControlWord word =
      signal == SIGUSR1 ? ControlWord::kCheckpoint : ControlWord::kCheckpointAndStop;
  signal_inbox->Raise(word, signal);
}

}  // namespace

void InstallSignalHandlers(ControlInbox& inbox) {
  LR_CHECK(signal_inbox == nullptr, "signal handlers are installed once per process");
  signal_inbox = &inbox;
  for (const int signal : std::array{SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) {
    struct sigaction current {};

    sigaction(signal, nullptr, &current);
    if (current.sa_handler == SIG_IGN) {
      continue;  // ignored at start (nohup and friends): stays ignored
    }

    struct sigaction action {};

    action.sa_handler = OnSignal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace lr::worker
