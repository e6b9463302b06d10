/// The look-up from episodes to video files.
#include "worker/data/camera_files.h"

#include <cmath>
#include <filesystem>
#include <map>

#include "common/base/text.h"

namespace lr::worker {

namespace {

constexpr size_t kMostListed = 20;

Status CheckExists(const std::string& file, int64_t episode, const std::string& camera) {
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error)) {
    return {};
  }
  return NotFound(
      "episode {}, camera {}: the video '{}' does not exist; fetch the dataset again, or leave the "
      "episode out with "
      "--dataset.exclude_episodes=[{}]",
      episode,
      camera,
      file,
      episode);
}

Result<CameraFiles> LocateCamera(const DatasetMetadata& metadata,
                                 const EpisodeRanges& ranges,
                                 const std::string& camera) {
  CameraFiles located;
  located.camera = camera;
  located.is_depth = metadata.info().cameras.at(camera).is_depth;
  std::map<std::string, size_t> numbers;
  for (const EpisodeRange& range : ranges.ranges()) {
    const EpisodeRecord& record = metadata.episodes()[static_cast<size_t>(range.episode)];
    LR_ASSIGN(const std::filesystem::path path, metadata.VideoFile(record, camera));
    const auto [known, is_new] = numbers.try_emplace(path.string(), located.files.size());
    if (is_new) {
      LR_TRY(CheckExists(path.string(), range.episode, camera));
      located.files.push_back(path.string());
    }
    located.episodes.push_back({known->second, record.videos.at(camera).from_timestamp});
  }
  return located;
}

}  // namespace

Result<std::vector<CameraFiles>> LocateVideos(const DatasetMetadata& metadata,
                                              const EpisodeRanges& ranges) {
  std::vector<CameraFiles> cameras;
  for (const std::string& camera : metadata.info().video_keys()) {
    LR_ASSIGN(CameraFiles located, LocateCamera(metadata, ranges, camera));
    cameras.push_back(std::move(located));
  }
  return cameras;
}

std::vector<std::string> CheckVideoSpans(const DatasetMetadata& metadata,
                                         const EpisodeRanges& ranges) {
  std::vector<std::string> episodes;
  const double frame_s = 1.0 / static_cast<double>(metadata.fps());
  for (const EpisodeRange& range : ranges.ranges()) {
    const EpisodeRecord& record = metadata.episodes()[static_cast<size_t>(range.episode)];
    for (const auto& [camera, segment] : record.videos) {
      const double span = segment.to_timestamp - segment.from_timestamp;
      if (!(std::abs(span - static_cast<double>(range.length()) * frame_s) <= frame_s)) {
        episodes.push_back(std::to_string(range.episode));
        break;
      }
    }
  }
  if (episodes.empty()) {
    return {};
  }
  const size_t total = episodes.size();
  episodes.resize(std::min(total, kMostListed));
  return {
      fmt::format("{} episodes have videos whose length does not fit their frames at {} fps; they "
                  "may fail during training. Leave "
                  "them out with --dataset.exclude_episodes=[{}]{}",
                  total,
                  metadata.fps(),
                  Join(episodes, ","),
                  total > kMostListed ? " (and more)" : "")};
}

}  // namespace lr::worker
