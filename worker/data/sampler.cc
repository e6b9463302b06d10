/// Sampler positions over rows. Pure.
#include "worker/data/sampler.h"

#include <algorithm>

#include "common/base/check.h"

namespace lr::worker {

Result<EpisodeAwareSampler> EpisodeAwareSampler::Create(const EpisodeRanges& ranges,
                                                        int64_t drop_first,
                                                        int64_t drop_last) {
  if (drop_first < 0 || drop_last < 0) {
    return InvalidArgument("frames to drop at episode ends must not be negative: first {}, last {}",
                           drop_first,
                           drop_last);
  }
  EpisodeAwareSampler sampler;
  int64_t total = 0;
  for (const EpisodeRange& range : ranges.ranges()) {
    const int64_t kept = range.length() - drop_first - drop_last;
    if (kept <= 0) {
      sampler.warnings_.push_back(
          fmt::format("episode {} is skipped: its {} frames are not more than the {} dropped at "
                      "its start and the {} at its end",
                      range.episode,
                      range.length(),
                      drop_first,
                      drop_last));
      continue;
    }
    total += kept;
    sampler.starts_.push_back(Row{range.first_row.position + drop_first});
    sampler.ends_.push_back(total);
  }
  if (total == 0) {
    return InvalidArgument(
        "No valid frames remain: all {} episodes are too short for the {} frames dropped at their "
        "start and the {} at their "
        "end (drop_n_last_frames of the policy)",
        ranges.ranges().size(),
        drop_first,
        drop_last);
  }
  return sampler;
}

Row EpisodeAwareSampler::RowAt(int64_t position) const {
  LR_CHECK(position >= 0 && position < size(), "sampler position {} of {}", position, size());
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), position);
  const auto episode = static_cast<size_t>(end - ends_.begin());
  const int64_t before = episode == 0 ? 0 : ends_[episode - 1];
  return Row{starts_[episode].position + position - before};
}

}  // namespace lr::worker
