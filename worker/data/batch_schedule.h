#pragma once
/// (pure) Which sampler positions form which batch of which rank, over all epochs, and where a
/// resumed run goes on (dataset_and_training_loop.md F.2, F.3).
///
/// Batch j of an epoch (B consecutive positions) goes to rank j mod W. With several ranks, a short
/// or missing batch at the end is completed from the beginning of the same epoch, so that every
/// rank has the same number of full batches. Completion always starts at the epoch's own first
/// position and the epoch number is kept, so a resumed stream equals the uninterrupted one, also
/// after the first epoch and in its completion batches.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// How one epoch of `positions` sampler positions is dealt.
struct Sharding {
  int64_t positions = 0;   ///< N
  int64_t batch_size = 1;  ///< B
  int64_t world = 1;       ///< W, data-parallel ranks

  /// Loop steps left in an epoch that continues at `first`, the same on every rank: ceil(ceil((N -
  /// first) / B) / W).
  int64_t batches_per_epoch(int64_t first = 0) const;

  /// Indices into the epoch's order that form batch `number` of `rank`, counted from `first`.
  std::vector<int64_t> BatchOf(int64_t rank, int64_t number, int64_t first = 0) const;

  bool operator==(const Sharding&) const = default;
};

/// Where a run goes on: "Resuming data order at epoch E, sample S".
struct ResumePosition {
  int64_t epoch = 0;
  int64_t sample = 0;

  bool operator==(const ResumePosition&) const = default;
};

/// The place after `step` loop steps. `saved` is the sharding of the run that wrote the checkpoint.
ResumePosition ResumeAt(int64_t step, const Sharding& saved);

/// One warning per setting that differs between the checkpoint and now; empty when the stream
/// continues exactly.
std::vector<std::string> ResumeWarnings(const Sharding& saved, const Sharding& current);

/// One batch of one rank.
struct BatchPlan {
  int64_t epoch = 0;
  std::vector<int64_t> positions;  ///< sampler positions, in order
};

/// The endless stream of this rank's batches.
class BatchSchedule {
 public:
  struct Options {
    Sharding sharding;
    int64_t rank = 0;  ///< data-parallel rank
    uint64_t seed = 1000;
    bool shuffle = true;
    ResumePosition start = {};
  };

  /// Refuses sizes below 1, a rank outside the world, and more positions than the permutation
  /// covers.
  static Result<BatchSchedule> Create(const Options& options);

  BatchPlan Next();

 private:
  explicit BatchSchedule(const Options& options);

  void EnterEpoch(int64_t epoch, int64_t first);

  Options options_;
  int64_t epoch_ = 0;
  int64_t first_ = 0;            ///< position at which epoch_ was entered
  int64_t batch_ = 0;            ///< batches of this rank handed out since first_
  std::vector<uint32_t> order_;  ///< of epoch_; empty when not shuffled
};

/// This rank's batches of one sequential pass over `positions` held-out samples, completed as in
/// training.
std::vector<BatchPlan> SequentialPass(const Sharding& sharding, int64_t rank);

}  // namespace lr::worker
