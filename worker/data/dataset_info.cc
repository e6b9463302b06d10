/// Reading and checking meta/info.json.
#include "worker/data/dataset_info.h"

#include <set>

#include "common/base/text.h"
#include "common/io/atomic_file.h"
#include "common/io/json.h"

namespace lr::worker {

namespace {

constexpr const char* kDataPath = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet";
constexpr const char* kVideoPath =
    "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4";

Status BadKey(const std::string& file, const std::string& key, const std::string& problem) {
  return InvalidArgument("'{}': {}: {}", file, key, problem);
}

Result<int64_t> IntegerKey(const Json& json,
                           const std::string& file,
                           const std::string& key,
                           std::optional<int64_t> fallback,
                           int64_t least) {
  if (!json.contains(key)) {
    if (fallback) {
      return *fallback;
    }
    return BadKey(file, key, "missing");
  }
  if (!json[key].is_number_integer() || json[key].get<int64_t>() < least) {
    return BadKey(
        file,
        key,
        fmt::format("expected a whole number of at least {}, not {}", least, json[key].dump()));
  }
  return json[key].get<int64_t>();
}

/// Major and minor number of "v3.0"; nullopt for anything else.
std::optional<std::pair<int64_t, int64_t>> ParseVersion(std::string text) {
  if (text.starts_with("v")) {
    text.erase(0, 1);
  }
  const std::vector<std::string> parts = Split(text, '.');
  if (parts.size() < 2) {
    return std::nullopt;
  }
  const std::optional<int64_t> major = ParseInt(parts[0]);
  const std::optional<int64_t> minor = ParseInt(parts[1]);
  if (!major || !minor) {
    return std::nullopt;
  }
  return std::pair(*major, *minor);
}

Status TooOld(const std::string& file, const std::string& version, const std::string& repo_id) {
  return FailedPrecondition(
      "'{}': the dataset has format {}, this version reads v3.0; convert it with\n"
      "  python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id={}",
      file,
      version,
      repo_id);
}

Status CheckVersion(const std::string& version,
                    const std::string& file,
                    const std::string& repo_id,
                    std::vector<std::string>& warnings) {
  const auto parsed = ParseVersion(version);
  if (!parsed) {
    return BadKey(file, "codebase_version", fmt::format("'{}' is no version like v3.0", version));
  }
  if (parsed->first < 3) {
    return TooOld(file, version, repo_id);
  }
  if (parsed->first > 3) {
    return FailedPrecondition(
        "'{}': the dataset has format {}, newer than the v3.0 this version reads: upgrade lr",
        file,
        version);
  }
  if (parsed->second > 0) {
    warnings.push_back(
        fmt::format("'{}': format {} is newer than v3.0; read as v3.0", file, version));
  }
  return {};
}

void ReadIfNumber(const Json& info, const char* key, double& value) {
  if (info.contains(key) && info[key].is_number()) {
    value = info[key].get<double>();
  }
}

bool IsTrue(const Json& info, const char* key) {
  return info.contains(key) && info[key].is_boolean() && info[key].get<bool>();
}

/// `info`, and `video_info` of older recordings.
Result<CameraInfo> ReadCamera(const Json& feature,
                              const std::string& file,
                              const std::string& key) {
  CameraInfo camera;
  for (const char* group : {"video_info", "info"}) {
    if (!feature.contains(group) || !feature[group].is_object()) {
      continue;
    }
    const Json& info = feature[group];
    if (info.contains("video.codec") && info["video.codec"].is_string()) {
      camera.codec = info["video.codec"].get<std::string>();
    }
    camera.is_depth =
        camera.is_depth || IsTrue(info, "is_depth_map") || IsTrue(info, "video.is_depth_map");
    ReadIfNumber(info, "video.depth_min", camera.depth_min);
    ReadIfNumber(info, "video.depth_max", camera.depth_max);
    ReadIfNumber(info, "video.shift", camera.depth_shift);
    if (info.contains("video.use_log") && info["video.use_log"].is_boolean()) {
      camera.depth_log = info["video.use_log"].get<bool>();
    }
  }
  const bool has_logarithm = !camera.depth_log || camera.depth_min + camera.depth_shift > 0.0;
  if (camera.is_depth && !(camera.depth_max > camera.depth_min && has_logarithm)) {
    return BadKey(file,
                  "features." + key,
                  fmt::format("depth from {} m to {} m with shift {} cannot be decoded",
                              camera.depth_min,
                              camera.depth_max,
                              camera.depth_shift));
  }
  return camera;
}

Result<DatasetFeature> ReadFeature(const Json& json,
                                   const std::string& file,
                                   const std::string& key) {
  if (key.find('/') != std::string::npos) {
    return BadKey(file, "features", fmt::format("the name '{}' contains '/'", key));
  }
  DatasetFeature feature;
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string()) {
    return BadKey(file, "features." + key, "dtype is missing");
  }
  feature.dtype = json["dtype"].get<std::string>();
  if (!json.contains("shape") || !json["shape"].is_array()) {
    return BadKey(file, "features." + key, "shape is no list");
  }
  for (const Json& size : json["shape"]) {
    if (!size.is_number_integer() || size.get<int64_t>() < 0) {
      return BadKey(
          file, "features." + key, fmt::format("shape {} holds no sizes", json["shape"].dump()));
    }
    feature.shape.push_back(size.get<int64_t>());
  }
  if (json.contains("names") && json["names"].is_array()) {
    for (const Json& name : json["names"]) {
      feature.names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
    }
  }
  return feature;
}

Status ReadFeatures(const Json& json, const std::string& file, DatasetInfo& info) {
  if (!json.contains("features") || !json["features"].is_object()) {
    return BadKey(file, "features", "missing or no map");
  }
  for (const auto& [key, value] : json["features"].items()) {
    LR_ASSIGN(DatasetFeature feature, ReadFeature(value, file, key));
    if (feature.dtype == "video" || feature.dtype == "image") {
      if (feature.shape.size() != 3) {
        return BadKey(file,
                      "features." + key,
                      fmt::format("a camera has three sizes, not {}", value["shape"].dump()));
      }
      LR_ASSIGN(info.cameras[key], ReadCamera(value, file, key));
    }
    info.features.emplace_back(key, std::move(feature));
  }
  for (const char* key : {"timestamp", "frame_index", "episode_index", "index", "task_index"}) {
    if (info.Find(key) == nullptr) {
      return BadKey(file, "features", fmt::format("'{}' is missing; every dataset has it", key));
    }
  }
  return {};
}

void NoteUnknownKeys(const Json& json, const std::string& file, DatasetInfo& info) {
  static const std::set<std::string> kKnown = {"codebase_version",
                                               "fps",
                                               "features",
                                               "total_episodes",
                                               "total_frames",
                                               "total_tasks",
                                               "chunks_size",
                                               "data_files_size_in_mb",
                                               "video_files_size_in_mb",
                                               "data_path",
                                               "video_path",
                                               "robot_type",
                                               "splits",
                                               "tools"};
  std::vector<std::string> unknown;
  for (const auto& [key, value] : json.items()) {
    if (kKnown.count(key) == 0) {
      unknown.push_back(key);
    }
  }
  if (!unknown.empty()) {
    info.warnings.push_back(
        fmt::format("'{}': unknown keys are ignored: {}", file, Join(unknown, ", ")));
  }
}

std::vector<std::string> KeysOf(const DatasetInfo& info, bool images_too) {
  std::vector<std::string> keys;
  for (const auto& [key, feature] : info.features) {
    if (feature.dtype == "video" || (images_too && feature.dtype == "image")) {
      keys.push_back(key);
    }
  }
  return keys;
}

constexpr int64_t kWidestNumber = 20;

/// One "{name}" or "{name:03d}" of a path template.
Result<std::string> FillField(std::string_view field,
                              int64_t chunk_index,
                              int64_t file_index,
                              const std::string& video_key) {
  const size_t colon = field.find(':');
  const std::string_view name = field.substr(0, colon);
  const std::string_view format = colon == std::string_view::npos ? "" : field.substr(colon + 1);
  if (name == "video_key" && format.empty()) {
    return video_key;
  }
  if (name != "chunk_index" && name != "file_index") {
    return InvalidArgument("unknown name '{}'", field);
  }
  std::optional<int64_t> width = 0;
  if (!format.empty() && format != "d") {
    width = format.back() == 'd' ? ParseInt(format.substr(0, format.size() - 1)) : std::nullopt;
  }
  if (!width || *width < 0 || *width > kWidestNumber) {
    return InvalidArgument("unknown format ':{}', expected one like :03d", format);
  }
  const int64_t number = name == "chunk_index" ? chunk_index : file_index;
  return format.starts_with('0') ? fmt::format("{:0{}d}", number, *width)
                                 : fmt::format("{:{}d}", number, *width);
}

}  // namespace

const DatasetFeature* DatasetInfo::Find(const std::string& key) const {
  for (const auto& [name, feature] : features) {
    if (name == key) {
      return &feature;
    }
  }
  return nullptr;
}

std::vector<std::string> DatasetInfo::camera_keys() const {
  return KeysOf(*this, true);
}

std::vector<std::string> DatasetInfo::video_keys() const {
  return KeysOf(*this, false);
}

Result<DatasetInfo> ParseDatasetInfo(const std::string& text,
                                     const std::string& file,
                                     const std::string& repo_id) {
  LR_ASSIGN(const Json json, ParseJson(text).WithContext("'{}'", file));
  if (!json.is_object()) {
    return InvalidArgument("'{}': not a JSON object", file);
  }
  DatasetInfo info;
  if (!json.contains("codebase_version") || !json["codebase_version"].is_string()) {
    return BadKey(file, "codebase_version", "missing");
  }
  info.codebase_version = json["codebase_version"].get<std::string>();
  LR_TRY(CheckVersion(info.codebase_version, file, repo_id, info.warnings));
  LR_ASSIGN(info.fps, IntegerKey(json, file, "fps", std::nullopt, 1));
  LR_ASSIGN(info.total_episodes, IntegerKey(json, file, "total_episodes", 0, 0));
  LR_ASSIGN(info.total_frames, IntegerKey(json, file, "total_frames", 0, 0));
  LR_ASSIGN(info.total_tasks, IntegerKey(json, file, "total_tasks", 0, 0));
  LR_ASSIGN(info.chunks_size, IntegerKey(json, file, "chunks_size", 1000, 1));
  LR_TRY(ReadFeatures(json, file, info));
  const auto text_key = [&](const char* key, const char* fallback) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>()
                                                       : std::string(fallback);
  };
  info.data_path = text_key("data_path", kDataPath);
  if (!info.video_keys().empty()) {
    info.video_path = text_key("video_path", kVideoPath);
  }
  if (json.contains("robot_type") && json["robot_type"].is_string()) {
    info.robot_type = json["robot_type"].get<std::string>();
  }
  NoteUnknownKeys(json, file, info);
  return info;
}

Result<DatasetInfo> ReadDatasetInfo(const std::filesystem::path& root, const std::string& repo_id) {
  const std::filesystem::path file = root / "meta" / "info.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    return NotFound("no dataset in '{}': '{}' does not exist", root.string(), file.string());
  }
  LR_ASSIGN(const std::string text, ReadFile(file.string()));
  Result<DatasetInfo> info = ParseDatasetInfo(text, file.string(), repo_id);
  // Only the v2 formats list their episodes as lines.
  if (!info.ok() && std::filesystem::exists(root / "meta" / "episodes.jsonl", error)) {
    return TooOld(file.string(), "v2.x", repo_id);
  }
  return info;
}

Result<std::string> FillPathTemplate(std::string_view path_template,
                                     int64_t chunk_index,
                                     int64_t file_index,
                                     const std::string& video_key) {
  std::string path;
  for (size_t i = 0; i < path_template.size(); ++i) {
    const char c = path_template[i];
    const bool is_doubled = i + 1 < path_template.size() && path_template[i + 1] == c;
    if (c == '}' && !is_doubled) {
      return InvalidArgument("path template '{}': a brace is not opened", path_template);
    }
    if (c != '{' || is_doubled) {
      path += c;
      i += c == '{' || c == '}' ? 1 : 0;
      continue;
    }
    const size_t close = path_template.find('}', i);
    if (close == std::string_view::npos) {
      return InvalidArgument("path template '{}': a brace is not closed", path_template);
    }
    const std::string_view field = path_template.substr(i + 1, close - i - 1);
    LR_ASSIGN(const std::string text,
              FillField(field, chunk_index, file_index, video_key)
                  .WithContext("path template '{}'", path_template));
    path += text;
    i = close;
  }
  return path;
}

}  // namespace lr::worker
