#pragma once
/// The gRPC service that native workers of this node attach to (unix socket, worker.proto):
/// collects their phase and steps, hands them control words, asks for their stacks. Lives on the
/// event loop; reactors only post. A worker that never attaches (a foreign program) is simply not
/// listed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "launcher/plan/worker_board.h"
#include "launcher/rendezvous/membership.h"

namespace lr::launcher {

/// Latest known state of one native worker.
struct WorkerProgress : WorkerBoard {
  int64_t pid = 0;
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
        progress;  ///< every word, at most 1 Hz per worker for steps
    std::function<void(const SaveNews&)> saved = nullptr;  ///< after the progress of that change
    /// The answer to AskStacks().
    std::function<void(int rank, const std::string& id, const std::string& text)> stacks = nullptr;
  };

  /// Serves on `socket_path` (created 0600, removed at the end).
  static Result<std::unique_ptr<WorkerService>> Start(boost::asio::io_context& loop,
                                                      const std::string& socket_path,
                                                      Events events);

  virtual ~WorkerService() = default;

  /// Sends the control word to every attached worker; returns how many there were. One with a
  /// number also reaches workers that attach later, until a save has answered it.
  virtual int Send(const ControlRequest& request) = 0;

  /// Asks the attached workers, or this one alone, for the stacks of their threads; returns the
  /// ranks that were asked.
  virtual std::set<int> AskStacks(const std::string& id, std::optional<int> rank) = 0;

  /// The workers of the epoch are gone: forgets what they told, hears nothing late from them.
  virtual void Forget() = 0;

  virtual const std::map<int, WorkerProgress>& progress() const = 0;
};

}  // namespace lr::launcher
