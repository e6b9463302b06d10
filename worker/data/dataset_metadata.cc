/// Reading and checking meta/: tasks and episodes.
#include "worker/data/dataset_metadata.h"

#include <algorithm>

#include "worker/data/parquet_file.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// Far above any dataset; keeps sums of damaged frame numbers from overflowing.
constexpr int64_t kMostFrames = int64_t{1} << 40;

Result<std::vector<fs::path>> ParquetFilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& chunk : fs::directory_iterator(folder, error)) {
    if (!chunk.is_directory(error)) {
      continue;
    }
    for (const fs::directory_entry& file : fs::directory_iterator(chunk.path(), error)) {
      if (file.path().extension() == ".parquet") {
        files.push_back(file.path());
      }
    }
  }
  if (files.empty()) {
    return NotFound("no parquet file below '{}'", folder.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The text column is called `task`, or is pandas' index `__index_level_0__`.
Result<std::map<int64_t, std::string>> ReadTasks(const fs::path& root) {
  LR_ASSIGN(const ParquetFile file, ParquetFile::Read(root / "meta" / "tasks.parquet"));
  const std::string column = file.Has("task") ? "task" : "__index_level_0__";
  LR_ASSIGN(const std::vector<std::string> texts, file.Texts(column));
  std::map<int64_t, std::string> tasks;
  if (!file.Has("task_index")) {  // by position
    for (size_t row = 0; row < texts.size(); ++row) {
      tasks[static_cast<int64_t>(row)] = texts[row];
    }
    return tasks;
  }
  LR_ASSIGN(const std::vector<int64_t> numbers, file.Integers("task_index"));
  for (size_t row = 0; row < texts.size(); ++row) {
    tasks[numbers[row]] = texts[row];
  }
  return tasks;
}

Status ReadSegments(const ParquetFile& file,
                    const std::string& camera,
                    std::vector<EpisodeRecord>& episodes) {
  const std::string prefix = "videos/" + camera + "/";
  LR_ASSIGN(const std::vector<int64_t> chunks, file.Integers(prefix + "chunk_index"));
  LR_ASSIGN(const std::vector<int64_t> files, file.Integers(prefix + "file_index"));
  LR_ASSIGN(const std::vector<double> from, file.Numbers(prefix + "from_timestamp"));
  LR_ASSIGN(const std::vector<double> to, file.Numbers(prefix + "to_timestamp"));
  for (size_t row = 0; row < episodes.size(); ++row) {
    episodes[row].videos[camera] = {chunks[row], files[row], from[row], to[row]};
  }
  return {};
}

Result<std::vector<EpisodeRecord>> ReadEpisodeFile(const fs::path& path, const DatasetInfo& info) {
  std::vector<std::string> columns = {"episode_index",
                                      "tasks",
                                      "dataset_from_index",
                                      "dataset_to_index",
                                      "data/chunk_index",
                                      "data/file_index"};
  for (const std::string& camera : info.video_keys()) {
    for (const char* field : {"chunk_index", "file_index", "from_timestamp", "to_timestamp"}) {
      columns.push_back("videos/" + camera + "/" + field);
    }
  }
  LR_ASSIGN(const ParquetFile file, ParquetFile::Read(path, columns));
  LR_ASSIGN(const std::vector<int64_t> numbers, file.Integers("episode_index"));
  LR_ASSIGN(const std::vector<int64_t> from, file.Integers("dataset_from_index"));
  LR_ASSIGN(const std::vector<int64_t> to, file.Integers("dataset_to_index"));
  LR_ASSIGN(const std::vector<int64_t> chunks, file.Integers("data/chunk_index"));
  LR_ASSIGN(const std::vector<int64_t> files, file.Integers("data/file_index"));
  std::vector<std::vector<std::string>> tasks(numbers.size());
  if (file.Has("tasks")) {
    LR_ASSIGN(tasks, file.TextLists("tasks"));
  }
  std::vector<EpisodeRecord> episodes;
  for (size_t row = 0; row < numbers.size(); ++row) {
    EpisodeRecord record;
    record.episode = numbers[row];
    record.from = {from[row]};
    record.to = {to[row]};
    record.data_chunk_index = chunks[row];
    record.data_file_index = files[row];
    record.tasks = tasks[row];
    episodes.push_back(std::move(record));
  }
  for (const std::string& camera : info.video_keys()) {
    LR_TRY(ReadSegments(file, camera, episodes));
  }
  return episodes;
}

Result<std::vector<EpisodeRecord>> ReadEpisodes(const fs::path& root, const DatasetInfo& info) {
  LR_ASSIGN(const std::vector<fs::path> files, ParquetFilesBelow(root / "meta" / "episodes"));
  std::vector<EpisodeRecord> all;
  for (const fs::path& path : files) {
    LR_ASSIGN(std::vector<EpisodeRecord> episodes, ReadEpisodeFile(path, info));
    for (EpisodeRecord& record : episodes) {
      const auto position = static_cast<int64_t>(all.size());
      if (record.episode != position) {
        return InvalidArgument("'{}': row {} holds episode {}; episodes must be numbered in order",
                               path.string(),
                               position,
                               record.episode);
      }
      const Frame previous = all.empty() ? Frame{0} : all.back().to;
      if (record.from < previous || record.to < record.from || record.to.number > kMostFrames) {
        return InvalidArgument("'{}': episode {} claims frames {} to {}, after {}",
                               path.string(),
                               record.episode,
                               record.from.number,
                               record.to.number,
                               previous.number);
      }
      all.push_back(std::move(record));
    }
  }
  return all;
}

}  // namespace

Result<std::shared_ptr<const DatasetMetadata>> DatasetMetadata::Open(const fs::path& root,
                                                                     const std::string& repo_id) {
  std::shared_ptr<DatasetMetadata> metadata(new DatasetMetadata());
  metadata->root_ = root;
  metadata->repo_id_ = repo_id;
  LR_ASSIGN(metadata->info_, ReadDatasetInfo(root, repo_id));
  LR_ASSIGN(metadata->stats_, ReadDatasetStats(root));
  LR_ASSIGN(metadata->tasks_, ReadTasks(root));
  LR_ASSIGN(metadata->episodes_, ReadEpisodes(root, metadata->info_));
  return std::shared_ptr<const DatasetMetadata>(std::move(metadata));
}

const std::string* DatasetMetadata::FindTask(int64_t task_index) const {
  const auto it = tasks_.find(task_index);
  return it == tasks_.end() ? nullptr : &it->second;
}

Result<fs::path> DatasetMetadata::VideoFile(const EpisodeRecord& episode,
                                            const std::string& camera) const {
  const auto it = episode.videos.find(camera);
  if (it == episode.videos.end() || !info_.video_path) {
    return NotFound("episode {} has no video of {}", episode.episode, camera);
  }
  LR_ASSIGN(
      const std::string path,
      FillPathTemplate(*info_.video_path, it->second.chunk_index, it->second.file_index, camera));
  return root_ / path;
}

}  // namespace lr::worker
