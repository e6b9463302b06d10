#pragma once
/// (pure) Which held-out frames an evaluation pass visits (dataset_and_training_loop.md F.4).

#include <cstdint>
#include <vector>

#include "worker/data/frame_index.h"

namespace lr::worker {

/// All rows when `max_samples` is 0; else the first max(1, max_samples / number of tasks) rows of
/// every task, ascending. `task_index[i]` is the task of row i.
std::vector<Row> HeldOutRows(const std::vector<int64_t>& task_index, int64_t max_samples);

}  // namespace lr::worker
