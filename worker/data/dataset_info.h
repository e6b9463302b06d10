#pragma once
/// meta/info.json: what a LeRobot v3 dataset says about itself (dataset_and_training_loop.md E.2,
/// E.13). No LibTorch.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "worker/data/features.h"

namespace lr::worker {

/// What `info` (or the older `video_info`) adds to a camera feature.
struct CameraInfo {
  std::string codec = {};
  bool is_depth = false;
  double depth_min = 0.01;   ///< metres
  double depth_max = 10.0;   ///< metres
  double depth_shift = 3.5;  ///< metres
  bool depth_log = true;     ///< codes are spaced by the logarithm of the distance
};

struct DatasetInfo {
  std::string codebase_version;
  int64_t fps = 0;
  DatasetFeatures features;
  std::map<std::string, CameraInfo> cameras;  ///< one entry per feature of dtype image or video
  int64_t total_episodes = 0;
  int64_t total_frames = 0;
  int64_t total_tasks = 0;
  int64_t chunks_size = 1000;
  std::string data_path;
  std::optional<std::string> video_path;
  std::optional<std::string> robot_type;

  /// Things a person should hear once: unknown keys, an older minor version.
  std::vector<std::string> warnings;

  const DatasetFeature* Find(const std::string& key) const;

  /// Keys of dtype image or video, in file order.
  std::vector<std::string> camera_keys() const;
  std::vector<std::string> video_keys() const;
};

/// Reads a v3.x description. `file` appears in messages only. Errors name file, key and value; an
/// older dataset is refused with the conversion command, a newer major version with the way out.
Result<DatasetInfo> ParseDatasetInfo(const std::string& text,
                                     const std::string& file,
                                     const std::string& repo_id);

/// Reads `root`/meta/info.json; recognises a v2.x folder by its files when there is no readable
/// version.
Result<DatasetInfo> ReadDatasetInfo(const std::filesystem::path& root, const std::string& repo_id);

/// Fills a Python format template: "{chunk_index:03d}" pads with zeros, "{video_key}" inserts text,
/// "{{" is a brace. Fails on an unknown name or a format that is not digits followed by d.
Result<std::string> FillPathTemplate(std::string_view path_template,
                                     int64_t chunk_index,
                                     int64_t file_index,
                                     const std::string& video_key);

}  // namespace lr::worker
