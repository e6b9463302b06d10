#pragma once
/// lr-ctl watch: shows a run until it has ended. Blocks; the calling thread must not have started
/// others before, as signals are taken in between two drawings.

#include <chrono>

#include "tools/lr_ctl/run_finder.h"

namespace lr {

/// Returns the exit code of the run; 1 when it is lost; 128 + signal when interrupted.
int WatchRun(FoundRun run, std::chrono::milliseconds interval);

}  // namespace lr
