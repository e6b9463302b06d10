#pragma once
/// meta/stats.json: per feature and statistic an array of numbers (dataset_and_training_loop.md
/// E.3). No LibTorch.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset_info.h"

namespace lr::worker {

/// A dense array in row-major order; single numbers have shape [1].
struct StatArray {
  std::vector<int64_t> shape;
  std::vector<double> values;

  bool operator==(const StatArray&) const = default;
};

/// feature -> statistic (min, max, mean, std, count, q01 …) -> numbers
using DatasetStats = std::map<std::string, std::map<std::string, StatArray>>;

Result<DatasetStats> ParseDatasetStats(const std::string& text, const std::string& file);

/// Reads `root`/meta/stats.json; a missing file gives an empty map (an error only once a step needs
/// it).
Result<DatasetStats> ReadDatasetStats(const std::filesystem::path& root);

/// Replaces mean and standard deviation of every colour camera by ImageNet's, shaped (3,1,1); depth
/// cameras and the other statistics stay.
void UseImagenetStats(const DatasetInfo& info, DatasetStats& stats);

/// The statistics under the names that the policy knows.
DatasetStats RenameStats(const DatasetStats& stats,
                         const std::map<std::string, std::string>& rename_map);

}  // namespace lr::worker
