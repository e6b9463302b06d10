/// Choice of held-out rows. Pure.
#include "worker/data/held_out.h"

#include <algorithm>
#include <map>

namespace lr::worker {

std::vector<Row> HeldOutRows(const std::vector<int64_t>& task_index, int64_t max_samples) {
  std::map<int64_t, int64_t> taken;
  for (const int64_t task : task_index) {
    taken[task] = 0;
  }
  const auto tasks = static_cast<int64_t>(taken.size());
  const int64_t per_task =
      max_samples > 0 && tasks > 0 ? std::max<int64_t>(1, max_samples / tasks) : 0;
  std::vector<Row> rows;
  for (size_t i = 0; i < task_index.size(); ++i) {
    if (per_task == 0 || taken[task_index[i]]++ < per_task) {
      rows.push_back(Row{static_cast<int64_t>(i)});
    }
  }
  return rows;
}

}  // namespace lr::worker
