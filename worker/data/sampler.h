#pragma once
/// (pure) Which rows an epoch visits: all frames of the selected episodes but the first and last
/// few of each (dataset_and_training_loop.md F.1). The order of the visit is epoch_order.h's, the
/// dealing to ranks batch_schedule.h's.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/episode_ranges.h"

namespace lr::worker {

class EpisodeAwareSampler {
 public:
  /// Negative drops are refused; an episode that is too short for them is skipped with a warning;
  /// nothing left is an error.
  static Result<EpisodeAwareSampler> Create(const EpisodeRanges& ranges,
                                            int64_t drop_first,
                                            int64_t drop_last);

  /// Number of sampler positions per epoch.
  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  /// The row at a position 0 … size()-1.
  Row RowAt(int64_t position) const;

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  EpisodeAwareSampler() = default;

  std::vector<Row> starts_;    ///< first row kept of each episode
  std::vector<int64_t> ends_;  ///< cumulative number of positions
  std::vector<std::string> warnings_;
};

}  // namespace lr::worker
