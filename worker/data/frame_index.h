#pragma once
/// The two ways to count frames, as types that cannot be mixed up.
///
/// A dataset numbers its frames once, over all episodes (column `index`); a selection of episodes
/// numbers the frames it kept from 0. Mixing the two reads wrong frames without any error, so only
/// EpisodeRanges (episode_ranges.h) converts.

#include <compare>
#include <cstdint>

namespace lr::worker {

/// Frame number over the whole dataset, as stored in the column `index`.
struct Frame {
  int64_t number = 0;

  auto operator<=>(const Frame&) const = default;
};

/// Position among the frames of the selected episodes: what samplers yield and items are read by.
struct Row {
  int64_t position = 0;

  auto operator<=>(const Row&) const = default;
};

}  // namespace lr::worker
