#pragma once
/// lr-ctl logs: prints the log files of this node's workers. Blocks until the run has ended when it
/// follows; one thread.

#include <optional>

#include "common/base/status.h"
#include "tools/lr_ctl/log_sources.h"
#include "tools/lr_ctl/run_finder.h"

namespace lr {

struct LogOptions {
  LogRequest request;
  std::optional<size_t> tail;  ///< lines of each file; nullopt: all
  bool follow = false;         ///< through restarts, unless an attempt is named
};

Status PrintLogs(const FoundRun& run, const LogOptions& options);

}  // namespace lr
