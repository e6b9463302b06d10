/// Frame <-> row by binary search over the selected episodes. Pure.
#include "worker/data/episode_ranges.h"

#include <algorithm>

#include "common/base/check.h"

namespace lr::worker {

void EpisodeRanges::Append(int64_t episode, Frame from, Frame to) {
  LR_CHECK(from <= to, "episode {} runs from {} to {}", episode, from.number, to.number);
  LR_CHECK(ranges_.empty() || ranges_.back().to <= from, "episode {} is out of order", episode);
  ranges_.push_back({episode, from, to, Row{num_rows_}});
  num_rows_ += to.number - from.number;
}

const EpisodeRange& EpisodeRanges::At(Row row) const {
  LR_CHECK(row.position >= 0 && row.position < num_rows_, "row {} of {}", row.position, num_rows_);
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), row, [](Row wanted, const EpisodeRange& range) {
        return wanted < range.first_row;
      });
  return *std::prev(after);
}

Frame EpisodeRanges::ToFrame(Row row) const {
  const EpisodeRange& range = At(row);
  return Frame{range.from.number + row.position - range.first_row.position};
}

std::optional<Row> EpisodeRanges::ToRow(Frame frame) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), frame, [](Frame wanted, const EpisodeRange& range) {
        return wanted < range.from;
      });
  if (after == ranges_.begin()) {
    return std::nullopt;
  }
  const EpisodeRange& range = *std::prev(after);
  if (frame >= range.to) {
    return std::nullopt;
  }
  return Row{range.first_row.position + frame.number - range.from.number};
}

}  // namespace lr::worker
