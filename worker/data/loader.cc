#include "worker/data/loader.h"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <thread>

#include "common/base/blocked_signals.h"
#include "worker/data/decoder_cache.h"
#include "worker/data/item_reader.h"
#include "worker/data/lerobot_dataset.h"
#include "worker/data/sampler.h"

namespace lr::worker {

namespace {

/// Builds each batch when it is asked for.
class InlineLoader final : public DataLoader {
 public:
  InlineLoader(ItemReader reader, RowBatchSource source, bool pin_memory)
      : reader_(std::move(reader)), source_(std::move(source)), pin_memory_(pin_memory) {}

  Result<std::optional<LoadedBatch>> Next() override {
    const std::optional<RowBatch> rows = source_();
    if (!rows) {
      return std::optional<LoadedBatch>();
    }
    LR_ASSIGN(Batch batch, reader_.ReadBatch(rows->rows, pin_memory_));
    return std::optional<LoadedBatch>({rows->epoch, std::move(batch)});
  }

 private:
  ItemReader reader_;
  RowBatchSource source_;
  bool pin_memory_;
};

/// Thread i builds batches i, i + n, …; each has a queue of its own, so the order is fixed.
class ThreadedLoader final : public DataLoader {
 public:
  ThreadedLoader(std::shared_ptr<const LeRobotDataset> dataset,
                 RowBatchSource source,
                 const LoaderOptions& options,
                 int64_t cache_size)
      : source_(std::move(source)), pin_memory_(options.pin_memory) {
    for (int64_t i = 0; i < options.num_workers; ++i) {
      lanes_.push_back(std::make_unique<Lane>(ItemReader(dataset, cache_size)));
    }
    for (int64_t ahead = 0; ahead < options.num_workers * options.prefetch_factor; ++ahead) {
      HandOut();
    }
    const BlockedSignals blocked;  // they belong to the step thread
    for (std::unique_ptr<Lane>& lane : lanes_) {
      lane->thread = std::thread([this, &lane = *lane] { Work(lane); });
      pthread_setname_np(lane->thread.native_handle(), "loader");
    }
  }

  ~ThreadedLoader() override {
    for (std::unique_ptr<Lane>& lane : lanes_) {
      const std::lock_guard lock(lane->mutex);
      lane->stop = true;
      lane->changed.notify_all();
    }
    for (std::unique_ptr<Lane>& lane : lanes_) {
      lane->thread.join();
    }
  }

  Result<std::optional<LoadedBatch>> Next() override {
    if (given_ == handed_out_) {
      return std::optional<LoadedBatch>();
    }
    Lane& lane = *lanes_[static_cast<size_t>(given_) % lanes_.size()];
    std::unique_lock lock(lane.mutex);
    lane.changed.wait(lock, [&] { return !lane.done.empty(); });
    Result<LoadedBatch> batch = std::move(lane.done.front());
    lane.done.pop_front();
    lock.unlock();
    ++given_;
    HandOut();
    if (!batch.ok()) {
      return batch.status();
    }
    return std::optional<LoadedBatch>(std::move(batch).value());
  }

 private:
  struct Lane {
    explicit Lane(ItemReader item_reader) : reader(std::move(item_reader)) {}

    ItemReader reader;  // its thread's
    std::mutex mutex;   // guards the rest
    std::condition_variable changed;
    std::deque<RowBatch> todo;
    std::deque<Result<LoadedBatch>> done;
    bool stop = false;
    std::thread thread;
  };

  /// The next batch of the source to its lane; called by the constructor and the consumer only.
  void HandOut() {
    if (exhausted_) {
      return;
    }
    std::optional<RowBatch> rows = source_();
    if (!rows) {
      exhausted_ = true;
      return;
    }
    Lane& lane = *lanes_[static_cast<size_t>(handed_out_++) % lanes_.size()];
    const std::lock_guard lock(lane.mutex);
    lane.todo.push_back(std::move(*rows));
    lane.changed.notify_all();
  }

  void Work(Lane& lane) {
    std::unique_lock lock(lane.mutex);
    while (true) {
      lane.changed.wait(lock, [&] { return lane.stop || !lane.todo.empty(); });
      if (lane.stop) {
        return;
      }
      const RowBatch rows = std::move(lane.todo.front());
      lane.todo.pop_front();
      lock.unlock();
      Result<LoadedBatch> loaded = Build(lane, rows);
      lock.lock();
      lane.done.push_back(std::move(loaded));
      lane.changed.notify_all();
    }
  }

  Result<LoadedBatch> Build(Lane& lane, const RowBatch& rows) {
    try {
      LR_ASSIGN(Batch batch, lane.reader.ReadBatch(rows.rows, pin_memory_));
      return LoadedBatch{rows.epoch, std::move(batch)};
    } catch (const std::exception& error) {  // LibTorch: out of memory
      return Internal("a loader thread failed: {}", error.what());
    }
  }

  RowBatchSource source_;
  bool pin_memory_;
  int64_t handed_out_ = 0;
  int64_t given_ = 0;
  bool exhausted_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace

Result<std::unique_ptr<DataLoader>> DataLoader::Create(
    std::shared_ptr<const LeRobotDataset> dataset,
    RowBatchSource source,
    const LoaderOptions& options) {
  if (options.num_workers < 0 || options.prefetch_factor < 1) {
    return InvalidArgument("--num_workers={} and --prefetch_factor={}: at least 0 and 1",
                           options.num_workers,
                           options.prefetch_factor);
  }
  LR_ASSIGN(const int64_t cache_size, DecoderCacheSizeFromEnvironment());
  if (options.num_workers == 0) {
    return std::unique_ptr<DataLoader>(std::make_unique<InlineLoader>(
        ItemReader(std::move(dataset), cache_size), std::move(source), options.pin_memory));
  }
  return std::unique_ptr<DataLoader>(
      std::make_unique<ThreadedLoader>(std::move(dataset), std::move(source), options, cache_size));
}

RowBatchSource TrainingSource(BatchSchedule schedule, EpisodeAwareSampler sampler) {
  // std::function needs a copyable callable: the state is shared.
  auto state = std::make_shared<std::pair<BatchSchedule, EpisodeAwareSampler>>(std::move(schedule),
                                                                               std::move(sampler));
  return [state]() -> std::optional<RowBatch> {
    const BatchPlan plan = state->first.Next();
    RowBatch batch;
    batch.epoch = plan.epoch;
    batch.rows.reserve(plan.positions.size());
    for (const int64_t position : plan.positions) {
      batch.rows.push_back(state->second.RowAt(position));
    }
    return batch;
  };
}

RowBatchSource HeldOutSource(std::vector<Row> rows,
                             int64_t batch_size,
                             int64_t world,
                             int64_t rank) {
  const Sharding sharding = {static_cast<int64_t>(rows.size()), batch_size, world};
  auto plans = std::make_shared<std::deque<BatchPlan>>();
  for (BatchPlan& plan : SequentialPass(sharding, rank)) {
    plans->push_back(std::move(plan));
  }
  return [plans, rows = std::move(rows)]() -> std::optional<RowBatch> {
    if (plans->empty()) {
      return std::nullopt;
    }
    RowBatch batch;
    for (const int64_t position : plans->front().positions) {
      batch.rows.push_back(rows[static_cast<size_t>(position)]);
    }
    plans->pop_front();
    return batch;
  };
}

}  // namespace lr::worker
