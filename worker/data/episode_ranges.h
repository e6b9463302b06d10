#pragma once
/// (pure) The one mapping between frame numbers of the dataset and rows of a selection of its
/// episodes.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "worker/data/frame_index.h"

namespace lr::worker {

/// One selected episode: its frames in the dataset and its first row in the selection.
struct EpisodeRange {
  int64_t episode = 0;
  Frame from;
  Frame to;
  Row first_row;

  int64_t length() const { return to.number - from.number; }
};

class EpisodeRanges {
 public:
  EpisodeRanges() = default;

  /// Adds an episode; frames must ascend (rows come in dataset order whatever the order of the
  /// request).
  void Append(int64_t episode, Frame from, Frame to);

  int64_t num_rows() const { return num_rows_; }

  const std::vector<EpisodeRange>& ranges() const { return ranges_; }

  /// The episode that holds `row`; the row must exist.
  const EpisodeRange& At(Row row) const;

  Frame ToFrame(Row row) const;

  /// The row of a frame, or nothing when its episode was not selected.
  std::optional<Row> ToRow(Frame frame) const;

 private:
  std::vector<EpisodeRange> ranges_;
  int64_t num_rows_ = 0;
};

}  // namespace lr::worker
