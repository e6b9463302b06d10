#pragma once
/// Everything under meta/: description, statistics, tasks, episodes. Read once, shared, immutable
/// afterwards.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset_info.h"
#include "worker/data/dataset_stats.h"
#include "worker/data/frame_index.h"

namespace lr::worker {

/// Where one camera's recording of one episode lies inside an mp4 file.
struct VideoSegment {
  int64_t chunk_index = 0;
  int64_t file_index = 0;
  double from_timestamp = 0.0;
  double to_timestamp = 0.0;
};

/// One row of meta/episodes.
struct EpisodeRecord {
  int64_t episode = 0;
  Frame from;  ///< first frame
  Frame to;    ///< one past the last frame
  int64_t data_chunk_index = 0;
  int64_t data_file_index = 0;
  std::vector<std::string> tasks;
  std::map<std::string, VideoSegment> videos;  ///< by camera key

  int64_t length() const { return to.number - from.number; }
};

class DatasetMetadata {
 public:
  /// Reads and checks meta/ of the dataset in `root`. Errors name file, column, row and value.
  static Result<std::shared_ptr<const DatasetMetadata>> Open(const std::filesystem::path& root,
                                                             const std::string& repo_id);

  const std::filesystem::path& root() const { return root_; }

  const std::string& repo_id() const { return repo_id_; }

  const DatasetInfo& info() const { return info_; }

  const DatasetFeatures& features() const { return info_.features; }

  const DatasetStats& stats() const { return stats_; }

  int64_t fps() const { return info_.fps; }

  const std::vector<EpisodeRecord>& episodes() const { return episodes_; }

  /// Task text by `task_index`; nullopt when the table has no such row.
  const std::string* FindTask(int64_t task_index) const;

  int64_t num_tasks() const { return static_cast<int64_t>(tasks_.size()); }

  /// The mp4 of that camera and episode.
  Result<std::filesystem::path> VideoFile(const EpisodeRecord& episode,
                                          const std::string& camera) const;

 private:
  DatasetMetadata() = default;

  std::filesystem::path root_;
  std::string repo_id_;
  DatasetInfo info_;
  DatasetStats stats_;
  std::map<int64_t, std::string> tasks_;
  std::vector<EpisodeRecord> episodes_;
};

}  // namespace lr::worker
