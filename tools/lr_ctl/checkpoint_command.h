#pragma once
/// `lr-ctl checkpoint`: asks a running lr-launch, prints each state that the request reaches. One
/// thread; blocks until the answer, an hour at most.

#include <string>

#include "tools/lr_ctl/run_finder.h"

namespace lr {

struct CheckpointOptions {
  bool stop = false;
  bool wait = false;
  bool only_when_started = false;
  bool json = false;
  double within_s = 0;  ///< 0: as long as it takes
  std::string id;       ///< empty: a new request
};

/// Exit code: 0 accepted (with `wait`: complete), 1 failed or skipped.
int RequestCheckpoint(const FoundRun& run, const CheckpointOptions& options);

}  // namespace lr
