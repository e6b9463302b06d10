#pragma once
/// Threads and processes that are started while it lives begin with every signal blocked: signals
/// belong to the thread that waits for them. Restores the caller's mask at its end. Any thread;
/// cannot fail.

#include <csignal>

namespace lr {

/// Asks a thread of a worker for its stack (worker/control/stack_dump.h): never blocked here. Only
/// ever sent by the process to itself.
inline int StackSignal() {
  return SIGRTMIN + 9;
}

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, StackSignal());
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace lr
