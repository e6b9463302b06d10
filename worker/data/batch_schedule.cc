/// Dealing of batches and resume arithmetic. Pure.
#include "worker/data/batch_schedule.h"

#include <algorithm>

#include "worker/data/epoch_order.h"

namespace lr::worker {

namespace {

int64_t CeilDivide(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

Status CheckSharding(const Sharding& sharding, int64_t rank) {
  if (sharding.positions < 1 || sharding.batch_size < 1 || sharding.world < 1) {
    return InvalidArgument(
        "frames ({}), batch size ({}) and data-parallel ranks ({}) must be at least 1",
        sharding.positions,
        sharding.batch_size,
        sharding.world);
  }
  if (rank < 0 || rank >= sharding.world) {
    return InvalidArgument("data-parallel rank {} is not in 0 to {}", rank, sharding.world - 1);
  }
  if (sharding.positions > kMaxPermutation) {
    return InvalidArgument("{} frames: the shuffled order is only defined up to {}",
                           sharding.positions,
                           kMaxPermutation);
  }
  return {};
}

}  // namespace

int64_t Sharding::batches_per_epoch(int64_t first) const {
  return CeilDivide(CeilDivide(positions - first, batch_size), world);
}

std::vector<int64_t> Sharding::BatchOf(int64_t rank, int64_t number, int64_t first) const {
  std::vector<int64_t> batch;
  const int64_t start = first + (number * world + rank) * batch_size;
  for (int64_t i = start; i < start + batch_size; ++i) {
    if (i < positions) {
      batch.push_back(i);
    } else if (world > 1) {
      batch.push_back(i % positions);  // completed from the epoch's own beginning
    }
  }
  return batch;
}

ResumePosition ResumeAt(int64_t step, const Sharding& saved) {
  const int64_t per_epoch = saved.batches_per_epoch();
  const int64_t done = step % per_epoch;
  return {step / per_epoch, std::min(done * saved.batch_size * saved.world, saved.positions)};
}

std::vector<std::string> ResumeWarnings(const Sharding& saved, const Sharding& current) {
  std::vector<std::string> warnings;
  const auto compare = [&](const char* what, int64_t before, int64_t now, const char* consequence) {
    if (before != now) {
      warnings.push_back(fmt::format(
          "{} changed from {} to {} since the checkpoint: {}", what, before, now, consequence));
    }
  };
  constexpr char kOffsetRight[] =
      "epoch and offset are right, but the run is not sample-exact any more";
  compare("data-parallel ranks", saved.world, current.world, kOffsetRight);
  compare("batch size", saved.batch_size, current.batch_size, kOffsetRight);
  compare("number of training frames",
          saved.positions,
          current.positions,
          "the order of the samples is another one");
  return warnings;
}

BatchSchedule::BatchSchedule(const Options& options) : options_(options) {
  EnterEpoch(options.start.epoch, std::min(options.start.sample, options.sharding.positions));
}

Result<BatchSchedule> BatchSchedule::Create(const Options& options) {
  LR_TRY(CheckSharding(options.sharding, options.rank));
  if (options.start.epoch < 0 || options.start.sample < 0) {
    return InvalidArgument(
        "cannot resume at epoch {}, sample {}", options.start.epoch, options.start.sample);
  }
  return BatchSchedule(options);
}

void BatchSchedule::EnterEpoch(int64_t epoch, int64_t first) {
  epoch_ = epoch;
  first_ = first;
  batch_ = 0;
  if (options_.shuffle) {
    order_ = Permutation(EpochSeed(options_.seed, static_cast<uint64_t>(epoch)),
                         options_.sharding.positions);
  }
}

BatchPlan BatchSchedule::Next() {
  if (batch_ >= options_.sharding.batches_per_epoch(first_)) {
    EnterEpoch(epoch_ + 1, 0);
  }
  BatchPlan plan = {epoch_, options_.sharding.BatchOf(options_.rank, batch_++, first_)};
  if (options_.shuffle) {
    for (int64_t& position : plan.positions) {
      position = order_[static_cast<size_t>(position)];
    }
  }
  return plan;
}

std::vector<BatchPlan> SequentialPass(const Sharding& sharding, int64_t rank) {
  std::vector<BatchPlan> pass;
  for (int64_t batch = 0; batch < sharding.batches_per_epoch(); ++batch) {
    pass.push_back({0, sharding.BatchOf(rank, batch)});
  }
  return pass;
}

}  // namespace lr::worker
