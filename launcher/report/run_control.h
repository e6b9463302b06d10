#pragma once
/// The control socket of a run (run.proto): what lr-ctl asks a running lr-launch. Reactors only
/// decode and post; answers are given on the event loop. Served on any node of the run.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "common/io/json.h"
#include "launcher/native/worker_service.h"

namespace lr::launcher {

/// What lr-ctl asks for.
struct CheckpointAsk {
  std::string id;  ///< empty: a new request
  bool stop = false;
  bool wait = false;
  bool only_when_started = false;
  int64_t within_ms = 0;
};

class RunControl {
 public:
  /// All called on the loop.
  struct Handlers {
    std::function<Json()> record;
    std::function<std::map<int, WorkerProgress>()> workers;
    /// Asks for a checkpoint; `told` is called for each state that it reaches, the last time with
    /// `last`.
    std::function<void(const CheckpointAsk&,
                       std::function<void(const CheckpointResult&, bool last)> told)>
        checkpoint;
    std::function<void(const std::string& reason)> cancel;
    /// Asks the host of the run; `done` is called once, with an error when no answer comes.
    std::function<void(ControlRequest request,
                       std::function<void(const Result<WatchReport>&)> done)>
        watch;
  };

  /// Serves on `socket_path` (0600), which is removed at the end. Calls that are still open then
  /// are answered kUnavailable.
  static Result<std::unique_ptr<RunControl>> Start(boost::asio::io_context& loop,
                                                   const std::string& socket_path,
                                                   Handlers handlers);

  virtual ~RunControl() = default;
};

}  // namespace lr::launcher
