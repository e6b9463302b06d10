/// Reading meta/stats.json, and the two changes that are made to it.
#include "worker/data/dataset_stats.h"

#include "common/io/atomic_file.h"
#include "common/io/json.h"
#include "worker/data/dataset_info.h"

namespace lr::worker {

namespace {

/// Appends the numbers of a nested list; `shape` is checked for raggedness level by level.
Status Flatten(const Json& json, size_t depth, StatArray& out) {
  if (json.is_number() || json.is_boolean()) {
    if (depth != out.shape.size()) {
      return InvalidArgument("lists of different depth");
    }
    out.values.push_back(json.is_boolean() ? (json.get<bool>() ? 1.0 : 0.0) : json.get<double>());
    return {};
  }
  if (!json.is_array()) {
    return InvalidArgument("expected numbers, not {}", json.dump().substr(0, 40));
  }
  const auto size = static_cast<int64_t>(json.size());
  if (depth == out.shape.size() && out.values.empty()) {
    out.shape.push_back(size);
  } else if (depth >= out.shape.size() || out.shape[depth] != size) {
    return InvalidArgument("lists of different length");
  }
  for (const Json& item : json) {
    LR_TRY(Flatten(item, depth + 1, out));
  }
  return {};
}

}  // namespace

Result<DatasetStats> ParseDatasetStats(const std::string& text, const std::string& file) {
  LR_ASSIGN(const Json json, ParseJson(text).WithContext("'{}'", file));
  if (!json.is_object()) {
    return InvalidArgument("'{}': not a JSON object", file);
  }
  DatasetStats stats;
  for (const auto& [feature, group] : json.items()) {
    if (!group.is_object()) {
      return InvalidArgument("'{}': {}: expected a map of statistics", file, feature);
    }
    for (const auto& [name, value] : group.items()) {
      StatArray array;
      if (value.is_number()) {
        array = {{1}, {value.get<double>()}};
      } else {
        LR_TRY(Flatten(value, 0, array).WithContext("'{}': {}.{}", file, feature, name));
      }
      stats[feature][name] = std::move(array);
    }
  }
  return stats;
}

Result<DatasetStats> ReadDatasetStats(const std::filesystem::path& root) {
  const std::filesystem::path file = root / "meta" / "stats.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    return DatasetStats();
  }
  LR_ASSIGN(const std::string text, ReadFile(file.string()));
  return ParseDatasetStats(text, file.string());
}

void UseImagenetStats(const DatasetInfo& info, DatasetStats& stats) {
  for (const auto& [key, camera] : info.cameras) {
    if (camera.is_depth) {
      continue;
    }
    stats[key]["mean"] = {{3, 1, 1}, {0.485, 0.456, 0.406}};
    stats[key]["std"] = {{3, 1, 1}, {0.229, 0.224, 0.225}};
  }
}

DatasetStats RenameStats(const DatasetStats& stats,
                         const std::map<std::string, std::string>& rename_map) {
  DatasetStats renamed;
  for (const auto& [key, group] : stats) {
    const auto it = rename_map.find(key);
    renamed[it == rename_map.end() ? key : it->second] = group;
  }
  return renamed;
}

}  // namespace lr::worker
