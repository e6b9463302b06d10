#pragma once
/// scheduler_state.json (checkpoints.md 3.10): torch's LambdaLR, form of torch >= 2.7; read
/// leniently. Step thread.

#include <filesystem>

#include "common/base/status.h"
#include "common/io/json.h"
#include "worker/optim/schedule.h"

namespace lr::worker {

Json SchedulerState(const LrScheduler& scheduler);

/// Continues the schedule where the file stands. The number of base rates must equal the number of
/// groups.
Status LoadScheduler(const std::filesystem::path& file, LrScheduler& scheduler);

}  // namespace lr::worker
