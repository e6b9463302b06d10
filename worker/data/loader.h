#pragma once
/// Delivers batches in a fixed order while threads prepare the next ones.
///
/// Batch j is built by thread j mod num_workers and handed over in order, so the stream does not
/// depend on timing. No random numbers are drawn. The threads block all signals. An error of a
/// thread reaches the caller of Next() in place of the batch that failed; the loader is finished
/// then. Next() belongs to one thread (the step thread).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "worker/data/batch.h"
#include "worker/data/batch_schedule.h"
#include "worker/data/frame_index.h"

namespace lr::worker {

class LeRobotDataset;

struct LoaderOptions {
  int64_t num_workers = 4;      ///< 0: batches are built inside Next()
  int64_t prefetch_factor = 4;  ///< batches per thread that are ready or being built
  bool pin_memory = false;
};

/// One batch to build: the dataset rows of a BatchPlan.
struct RowBatch {
  int64_t epoch = 0;
  std::vector<Row> rows;
};

/// The stream of batches to build; nullopt ends it. Called from within Create() and Next() only.
using RowBatchSource = std::function<std::optional<RowBatch>()>;

struct LoadedBatch {
  int64_t epoch = 0;
  Batch batch;
};

class DataLoader {
 public:
  /// Starts the threads. Refuses negative numbers and a bad decoder cache size in the environment.
  static Result<std::unique_ptr<DataLoader>> Create(std::shared_ptr<const LeRobotDataset> dataset,
                                                    RowBatchSource source,
                                                    const LoaderOptions& options);

  /// Stops and joins the threads; batches under way are finished first.
  virtual ~DataLoader() = default;

  /// The next batch; nullopt when the source has ended.
  virtual Result<std::optional<LoadedBatch>> Next() = 0;
};

class EpisodeAwareSampler;

/// The endless training stream: a schedule's positions through the sampler's rows.
RowBatchSource TrainingSource(BatchSchedule schedule, EpisodeAwareSampler sampler);

/// One sequential pass of this rank over `rows` (HeldOutRows).
RowBatchSource HeldOutSource(std::vector<Row> rows,
                             int64_t batch_size,
                             int64_t world,
                             int64_t rank);

}  // namespace lr::worker
