/// Opening: selection, video files, rows, statistics.
#include "worker/data/lerobot_dataset.h"

#include <algorithm>

#include <ATen/ops/tensor.h>

#include "worker/data/frame_table.h"
#include "worker/data/video_decoder.h"

namespace lr::worker {

namespace {

/// The selected episodes in the dataset's order, each once.
Result<EpisodeRanges> MakeRanges(const DatasetMetadata& metadata, std::vector<int64_t> episodes) {
  std::sort(episodes.begin(), episodes.end());
  episodes.erase(std::unique(episodes.begin(), episodes.end()), episodes.end());
  const auto total = static_cast<int64_t>(metadata.episodes().size());
  EpisodeRanges ranges;
  for (const int64_t episode : episodes) {
    if (episode < 0 || episode >= total) {
      return OutOfRange(
          "episode {} is not in the dataset; valid episodes are 0 to {}", episode, total - 1);
    }
    const EpisodeRecord& record = metadata.episodes()[static_cast<size_t>(episode)];
    ranges.Append(episode, record.from, record.to);
  }
  if (ranges.num_rows() == 0) {
    return InvalidArgument("the {} selected episodes hold no frame", episodes.size());
  }
  return ranges;
}

/// Opens one file per camera: a codec without a decoder is known before the first batch.
Status CheckDecoders(const std::vector<CameraFiles>& cameras) {
  for (const CameraFiles& camera : cameras) {
    LR_TRY(
        VideoDecoder::Open(camera.files.front())
            .WithContext("camera {} (readable codecs: {})", camera.camera, ReadableVideoCodecs()));
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
  LR_ASSIGN(dataset->ranges_, MakeRanges(*metadata, options.episodes));
  LR_ASSIGN(dataset->videos_, LocateVideos(*metadata, dataset->ranges_));
  LR_TRY(CheckDecoders(dataset->videos_));
  dataset->warnings_ = CheckVideoSpans(*metadata, dataset->ranges_);
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
