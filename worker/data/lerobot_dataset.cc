#include "worker/data/lerobot_dataset.h"

#include <algorithm>

#include <ATen/ops/tensor.h>

#include "worker/data/frame_table.h"

namespace lr::worker {

namespace {

Status CheckCameras(const DatasetMetadata& metadata, const EpisodeRanges& ranges) {
  for (const auto& [key, camera] : metadata.info().cameras) {
    if (camera.is_depth) {
      return Unimplemented(
          "{}: depth cameras are specified but not built yet; use a dataset without them", key);
    }
  }
  for (const std::string& camera : metadata.info().video_keys()) {
    for (const EpisodeRange& range : ranges.ranges()) {
      const EpisodeRecord& record = metadata.episodes()[static_cast<size_t>(range.episode)];
      LR_ASSIGN(const std::filesystem::path file, metadata.VideoFile(record, camera));
      std::error_code error;
      if (!std::filesystem::is_regular_file(file, error)) {
        return NotFound("episode {}, camera {}: the video '{}' does not exist",
                        range.episode,
                        camera,
                        file.string());
      }
    }
  }
  return {};
}

}  // namespace

Statistics ToTensors(const DatasetStats& stats) {
  Statistics tensors;
  for (const auto& [feature, group] : stats) {
    for (const auto& [name, array] : group) {
      tensors[feature][name] = at::tensor(at::ArrayRef<double>(array.values), at::kDouble)
                                   .reshape(array.shape)
                                   .to(at::kFloat);
    }
  }
  return tensors;
}

LeRobotDataset::~LeRobotDataset() = default;

Result<std::shared_ptr<const LeRobotDataset>> LeRobotDataset::Open(
    std::shared_ptr<const DatasetMetadata> metadata, const DatasetOptions& options) {
  std::shared_ptr<LeRobotDataset> dataset(new LeRobotDataset());
  dataset->options_ = options;
  std::vector<int64_t> episodes = options.episodes;
  std::sort(episodes.begin(), episodes.end());
  for (const int64_t episode : episodes) {
    if (episode < 0 || episode >= static_cast<int64_t>(metadata->episodes().size())) {
      return OutOfRange("episode {} of {}", episode, metadata->episodes().size());
    }
    const EpisodeRecord& record = metadata->episodes()[static_cast<size_t>(episode)];
    dataset->ranges_.Append(episode, record.from, record.to);
  }
  if (dataset->ranges_.num_rows() == 0) {
    return InvalidArgument("the selected episodes hold no frame");
  }
  LR_TRY(CheckCameras(*metadata, dataset->ranges_));
  LR_ASSIGN(dataset->frames_, FrameTable::Read(*metadata, dataset->ranges_));
  DatasetStats stats = metadata->stats();
  if (options.use_imagenet_stats) {
    UseImagenetStats(metadata->info(), stats);
  }
  dataset->stats_ = ToTensors(stats);
  dataset->metadata_ = std::move(metadata);
  return std::shared_ptr<const LeRobotDataset>(std::move(dataset));
}

std::vector<int64_t> LeRobotDataset::TaskIndices() const {
  const at::Tensor& column = frames_->columns().at("task_index");
  const auto* values = column.data_ptr<int64_t>();
  return {values, values + column.numel()};
}

}  // namespace lr::worker
