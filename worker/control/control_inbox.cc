// The pending request of a rank, and the signals that raise it.
#include <algorithm>
#include <array>
#include <csignal>
#include <unistd.h>

#include "common/base/check.h"
#include "worker/control/control.h"

namespace lr::worker {

void ControlInbox::Raise(ControlWord word, int signal, int64_t number) {
  if (number > 0 && number <= acted_on_.load()) {
    return;
  }
  int64_t current = request_.load();
  int64_t wanted = 0;
  do {
    const NumberedWord known = Unpack(current);
    wanted = Pack({std::max(known.word, word), std::max(known.number, number)});
  } while (!request_.compare_exchange_weak(current, wanted));
  int none = 0;
  if (signal != 0 && word >= ControlWord::kCheckpointAndStop) {
    stop_signal_.compare_exchange_strong(none, signal);
  }
}

void ControlInbox::Clear(const NumberedWord& acted_on) {
  acted_on_.store(std::max(acted_on_.load(), acted_on.number));
  int64_t current = request_.load();
  NumberedWord known = Unpack(current);
  while (known.word <= acted_on.word && known.number <= acted_on.number && current != 0 &&
         !request_.compare_exchange_weak(current, 0)) {
    known = Unpack(current);
  }
}

namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
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
  // Asked for by USR2, a stop is no interruption: the process ends with 0, as for lr-ctl.
  signal_inbox->Raise(word, interrupting ? signal : 0);
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
