#pragma once
/// The gRPC service that native workers of this node attach to (unix socket, worker.proto):
/// collects their phase and steps, hands them control words. Lives on the event loop; reactors only
/// post. A worker that never attaches (a foreign program) is simply not listed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "launcher/rendezvous/membership.h"

namespace lr::launcher {

/// Latest known state of one native worker.
struct WorkerProgress {
  int rank = 0;
  int64_t pid = 0;
  std::string phase;  ///< init, data, forward, backward, reduce, optimizer, eval, checkpoint, idle
  int64_t step = 0;
  int64_t total_steps = 0;
  double loss = 0.0;
  double samples_per_s = 0.0;
  SaveEstimates estimates = {};
  std::string output_dir;
  int64_t checkpoint_step = 0;  ///< newest checkpoint it reported complete
  std::string checkpoint_dir;
  std::string checkpoint_error;    ///< of its newest save, empty when that succeeded
  int64_t checkpoint_reports = 0;  ///< saves it reported, good or bad
  std::string failure;             ///< its own words, when it reported one
  std::string goodbye;             ///< done, stopped, failed; empty while it runs
};

class WorkerService {
 public:
  struct Events {
    std::function<void(const WorkerProgress&)>
        progress;  ///< every change, at most 1 Hz per worker for steps
    std::function<void(const SaveNews&)> saved = nullptr;  ///< after the progress of that change
  };

  /// Serves on `socket_path` (created 0600, removed at the end).
  static Result<std::unique_ptr<WorkerService>> Start(boost::asio::io_context& loop,
                                                      const std::string& socket_path,
                                                      Events events);

  virtual ~WorkerService() = default;

  /// Sends the control word to every attached worker; returns how many there were. One with a
  /// number also reaches workers that attach later, until a save has answered it.
  virtual int Send(const ControlRequest& request) = 0;

  /// The workers of the epoch are gone: forgets what they told, hears nothing late from them.
  virtual void Forget() = 0;

  virtual const std::map<int, WorkerProgress>& progress() const = 0;
};

}  // namespace lr::launcher
