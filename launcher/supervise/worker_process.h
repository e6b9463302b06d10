#pragma once
/// One worker of this node, from its start to the record of its end (S-10). Loop-confined; exits
/// are seen through the pidfd.

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "launcher/plan/assignment.h"
#include "launcher/supervise/kernel_evidence.h"
#include "launcher/supervise/output_pump.h"
#include "launcher/supervise/process.h"

namespace lr::launcher {

struct WorkerSpec {
  int rank = 0;
  int local_rank = 0;
  int node_rank = 0;
  std::string host_name;
  std::string executable;
  std::vector<std::string> argv;
  Variables environment;
  StreamOutput out = {};
  StreamOutput err = {};
  std::string error_file;  ///< empty: none
  bool inherit_stdin = false;
  std::vector<int> cpus = {};  ///< the only ones that it may use; empty: as this process
  bool terminal = false;       ///< its streams are pseudo-terminals instead of pipes
};

class WorkerProcess {
 public:
  using OnEnded = std::function<void(const WorkerEnding&)>;

  WorkerProcess(boost::asio::io_context& loop,
                OutputSinks sinks,
                KernelEvidence& kernel,
                WorkerSpec spec,
                OnEnded on_ended);
  ~WorkerProcess();

  /// A start that fails is reported through the same ending, with exit code 127 (not found) or 126,
  /// from the loop.
  void Start();

  /// To the worker's whole process group, while the worker itself runs. `stop`: it counts as a stop
  /// of ours.
  void Signal(int signal, bool stop);

  bool running() const;

  /// 0 before the start.
  pid_t pid() const;

  uint64_t start_time() const;

  const WorkerSpec& spec() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lr::launcher
