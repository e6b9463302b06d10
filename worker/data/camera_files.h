#pragma once
/// Which mp4 file holds which selected episode of which camera, worked out once: readers only look
/// it up.

#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset_metadata.h"
#include "worker/data/episode_ranges.h"

namespace lr::worker {

struct CameraFiles {
  /// An episode's recording: the number of its file and where it starts in it.
  struct Place {
    size_t file = 0;
    double from_timestamp = 0.0;
  };

  std::string camera;
  bool is_depth = false;
  std::vector<std::string> files;
  std::vector<Place> episodes;  ///< parallel to EpisodeRanges::ranges()
};

/// One entry per camera of dtype video. A file that does not exist is an error with episode and
/// camera.
Result<std::vector<CameraFiles>> LocateVideos(const DatasetMetadata& metadata,
                                              const EpisodeRanges& ranges);

/// One warning that lists the episodes whose stretch of video does not fit their number of frames
/// (by meta/episodes alone), with the option that leaves them out; empty when all fit.
std::vector<std::string> CheckVideoSpans(const DatasetMetadata& metadata,
                                         const EpisodeRanges& ranges);

}  // namespace lr::worker
