#pragma once
/// (pure) Which neighbouring frames an item holds besides its own, and what happens at the ends of
/// an episode.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/data/features.h"
#include "worker/data/frame_index.h"

namespace lr::worker {

/// Window of frame offsets per kind of key; empty means "the single current frame, no time axis".
struct PolicyWindows {
  std::vector<int64_t> observation = {};
  std::vector<int64_t> action = {};
  std::vector<int64_t> reward = {};
};

/// Frame offsets by dataset key; a key without an entry delivers its single current frame.
using WindowMap = std::map<std::string, std::vector<int64_t>>;

/// The windows of a policy laid over the keys of a dataset. `rename_map` (dataset key -> policy
/// key) decides by the new name which window applies; the result is keyed by the dataset's own
/// name.
WindowMap MakeWindows(const DatasetFeatures& features,
                      const PolicyWindows& windows,
                      const std::map<std::string, std::string>& rename_map = {});

/// One frame of a window: offsets that leave the episode repeat its first or last frame and are
/// marked as padding.
struct WindowFrame {
  Frame frame;
  bool is_pad = false;
};

/// The frame at `current + offset` inside [from, to).
WindowFrame FrameAtOffset(Frame current, int64_t offset, Frame from, Frame to);

}  // namespace lr::worker
