#pragma once
/// Runs the command of --preempt-watch beside the workers of an epoch and tells its notices: each
/// line of its output, and its end with exit code 0. A process of the run like any other: it dies
/// with the launcher, and the sweep after the epoch takes it along. Loop-confined; made on the main
/// thread (process.h). What it says on stderr goes to ours.

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "launcher/plan/preempt_plan.h"
#include "launcher/plan/worker_variables.h"

namespace lr::launcher {

class PreemptWatch {
 public:
  struct Events {
    std::function<void(const Notice&)> notice;
    std::function<void(const std::string& why)> blind;  ///< no further notice will come
  };

  /// `environment` carries the run's marker.
  static Result<std::unique_ptr<PreemptWatch>> Start(boost::asio::io_context& loop,
                                                     const std::string& command,
                                                     Variables environment,
                                                     Events events);

  /// Kills the command; no event comes any more.
  virtual ~PreemptWatch() = default;
};

}  // namespace lr::launcher
