#pragma once
/// The rows of the selected episodes in memory: one tensor per numeric column, one list per text or
/// picture column. Read once, immutable afterwards, shared by all loader threads.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/data/dataset_metadata.h"
#include "worker/data/episode_ranges.h"
#include "worker/data/parquet_file.h"

namespace lr::worker {

class FrameTable {
 public:
  /// Reads the data files that hold the selected episodes. Every selected frame must be found once,
  /// in order. Floats become float32, whole numbers int64, as the reference's items have them.
  static Result<std::unique_ptr<FrameTable>> Read(const DatasetMetadata& metadata,
                                                  const EpisodeRanges& ranges);

  /// [rows, shape…], or [rows] for features of shape [1] that no policy sees (timestamp, index, …);
  /// float32, int64 or bool.
  const std::map<std::string, at::Tensor>& columns() const { return columns_; }

  const std::map<std::string, std::vector<std::string>>& texts() const { return texts_; }

  const std::map<std::string, std::vector<StoredImage>>& images() const { return images_; }

 private:
  FrameTable() = default;
  Status Allocate(const DatasetInfo& info, int64_t rows);
  void AllocateColumn(const std::string& key, const DatasetFeature& feature, int64_t rows);
  Status CopyRange(const ParquetFile& file,
                   const DatasetInfo& info,
                   const EpisodeRange& range,
                   int64_t first);

  std::map<std::string, at::Tensor> columns_;
  std::map<std::string, std::vector<std::string>> texts_;
  std::map<std::string, std::vector<StoredImage>> images_;
};

}  // namespace lr::worker
