#pragma once
/// The workers of this node in one epoch: started together, stopped together, and nothing of them
/// left afterwards (S-2, S-5, S-7, S-30). Loop-confined; call Start() on the main thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/plan/assignment.h"
#include "launcher/supervise/output_pump.h"
#include "launcher/supervise/process_tree.h"
#include "launcher/supervise/sweeper.h"
#include "launcher/supervise/worker_process.h"

namespace lr::launcher {

struct RunningWorker {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
};

class WorkerGroup {
 public:
  struct Events {
    std::function<void(const WorkerEnding&)> ended;  ///< one worker, as it happens
    /// All workers ended and the process tree is empty, but for what could not be killed in time.
    std::function<void(const std::vector<ProcessInfo>& leftover)> gone;
  };

  struct Options {
    std::string marker;  ///< "NAME=value" in every worker's environment
  };

  WorkerGroup(boost::asio::io_context& loop,
              OutputSinks sinks,
              Sweeper& sweeper,
              Options options,
              Events events);
  ~WorkerGroup();

  void Start(std::vector<WorkerSpec> specs);

  /// Orders the stop; a second order changes nothing. SIGKILL follows after `grace`.
  void Stop(StopReason reason, int signal, std::chrono::milliseconds grace);

  /// No grace any more: SIGKILL to what still runs.
  void StopNow();

  /// Forwards a signal that must not kill: only to workers that handle it themselves (L-52).
  /// Returns how many.
  int ForwardHandled(int signal);

  /// To every worker's group, unconditionally (SIGSTOP, SIGCONT, SIGWINCH).
  void Broadcast(int signal);

  int running() const;

  /// Those that run now.
  std::vector<RunningWorker> Running() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lr::launcher
