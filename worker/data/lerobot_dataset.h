#pragma once
/// A LeRobot v3 dataset opened for reading: which rows exist and what the items at them are.
///
/// Open() reads the selected episodes' rows once into compact columns; videos are decoded on demand
/// by an ItemReader. The dataset is immutable afterwards and shared by all loader threads; an
/// ItemReader belongs to one thread.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/data/batch.h"
#include "worker/data/camera_files.h"
#include "worker/data/dataset_metadata.h"
#include "worker/data/episode_ranges.h"
#include "worker/data/windows.h"

namespace lr::worker {

class FrameTable;

/// feature -> statistic -> float32 tensor on the CPU
using Statistics = std::map<std::string, std::map<std::string, at::Tensor>>;

/// Statistics as tensors of the shapes that the file gives.
Statistics ToTensors(const DatasetStats& stats);

struct DatasetOptions {
  /// The selection (SelectEpisodes, SplitHeldOut); order does not matter.
  std::vector<int64_t> episodes = {};
  WindowMap windows = {};     ///< MakeWindows
  double tolerance_s = 1e-4;  ///< largest distance between a wanted and a found video frame
  bool use_imagenet_stats = true;
  bool depth_in_millimetres = true;  ///< unit of depth cameras' items; metres otherwise
};

class LeRobotDataset {
 public:
  /// Reads and checks the selected rows and that every needed mp4 exists. Errors say file, column,
  /// episode, value.
  static Result<std::shared_ptr<const LeRobotDataset>> Open(
      std::shared_ptr<const DatasetMetadata> metadata, const DatasetOptions& options);

  ~LeRobotDataset();

  /// Frames of the selection.
  int64_t size() const { return ranges_.num_rows(); }

  int64_t num_episodes() const { return static_cast<int64_t>(ranges_.ranges().size()); }

  int64_t fps() const { return metadata_->fps(); }

  const DatasetMetadata& metadata() const { return *metadata_; }

  const DatasetFeatures& features() const { return metadata_->features(); }

  const DatasetOptions& options() const { return options_; }

  /// Of the whole dataset whatever the selection, after the ImageNet replacement.
  const Statistics& stats() const { return stats_; }

  const EpisodeRanges& ranges() const { return ranges_; }

  /// `task_index` of every row (HeldOutRows).
  std::vector<int64_t> TaskIndices() const;

  const FrameTable& frames() const { return *frames_; }

  /// Where the frames of cameras of dtype video lie.
  const std::vector<CameraFiles>& videos() const { return videos_; }

  /// Things a person should hear before training starts.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  LeRobotDataset() = default;

  std::shared_ptr<const DatasetMetadata> metadata_;
  DatasetOptions options_;
  EpisodeRanges ranges_;
  Statistics stats_;
  std::vector<CameraFiles> videos_;
  std::vector<std::string> warnings_;
  std::unique_ptr<FrameTable> frames_;
};

}  // namespace lr::worker
