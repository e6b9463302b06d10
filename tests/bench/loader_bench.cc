/// lr-bench-loader ROOT WORKERS [BATCHES]: items per second of the training loader over one
/// dataset, shuffled, batches of 8, the first round of batches not counted.
#include <chrono>
#include <iostream>

#include "common/base/text.h"
#include "worker/data/lerobot_dataset.h"
#include "worker/data/loader.h"
#include "worker/data/sampler.h"

namespace lr::worker {
namespace {

constexpr int64_t kBatchSize = 8;
constexpr int64_t kWarmUp = 16;

Result<std::unique_ptr<DataLoader>> MakeLoader(const std::string& root, int64_t workers) {
  LR_ASSIGN(const auto metadata, DatasetMetadata::Open(root, "bench"));
  DatasetOptions options;
  for (const EpisodeRecord& record : metadata->episodes()) {
    options.episodes.push_back(record.episode);
  }
  LR_ASSIGN(const auto dataset, LeRobotDataset::Open(metadata, options));
  LR_ASSIGN(EpisodeAwareSampler sampler, EpisodeAwareSampler::Create(dataset->ranges(), 0, 0));
  BatchSchedule::Options schedule;
  schedule.sharding = {sampler.size(), kBatchSize, 1};
  LR_ASSIGN(BatchSchedule batches, BatchSchedule::Create(schedule));
  return DataLoader::Create(
      dataset, TrainingSource(std::move(batches), std::move(sampler)), {.num_workers = workers});
}

Status Measure(const std::string& root, int64_t workers, int64_t batches) {
  LR_ASSIGN(const std::unique_ptr<DataLoader> loader, MakeLoader(root, workers));
  int64_t items = 0;
  auto start = std::chrono::steady_clock::now();
  for (int64_t batch = 0; batch < kWarmUp + batches; ++batch) {
    if (batch == kWarmUp) {
      items = 0;
      start = std::chrono::steady_clock::now();
    }
    LR_ASSIGN(const auto loaded, loader->Next());
    items += static_cast<int64_t>(loaded->batch.task.size());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format("{:.1f} items/s\n", static_cast<double>(items) / seconds.count());
  return {};
}

}  // namespace
}  // namespace lr::worker

int main(int argc, char** argv) {
  const auto workers = argc > 2 ? lr::ParseInt(argv[2]) : std::nullopt;
  const auto batches = argc > 3 ? lr::ParseInt(argv[3]) : std::optional<int64_t>(200);
  if (argc < 3 || !workers || !batches || *batches < 1) {
    std::cerr << "usage: lr-bench-loader ROOT WORKERS [BATCHES]\n";
    return 2;
  }
  if (const lr::Status status = lr::worker::Measure(argv[1], *workers, *batches); !status.ok()) {
    std::cerr << status.message() << "\n";
    return 1;
  }
  return 0;
}
