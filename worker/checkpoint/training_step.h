#pragma once
/// (pure) training_step.json: where a run stood and in which shape it ran (checkpoints.md 3.9).
/// Upstream's keys first, then ours, which upstream ignores.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"

namespace lr::worker {

struct SavedTopology {
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;
  int64_t ring_degree = 1;
  int64_t ulysses_degree = 1;

  bool sharded() const { return dp_shard != 1; }

  bool operator==(const SavedTopology&) const = default;
};

/// Unset fields were absent in the file ("unknown"); a writer sets all but the last two groups.
struct TrainingStep {
  int64_t step = 0;  ///< loop steps (micro-batches), not optimizer updates
  std::optional<int64_t> dp_world_size;
  std::optional<int64_t> batch_size;
  std::optional<int64_t> grad_accum_steps;
  std::optional<SavedTopology> parallelism;
  std::optional<std::string> mixed_precision;  ///< no, bf16, fp16
  std::optional<int64_t> dataset_frames;       ///< ours, to notice a changed dataset
  std::optional<int64_t> dataset_episodes;     ///< ours
  std::optional<int64_t> sampler_positions;    ///< ours: N of the resume arithmetic
  /// Foreign variables that were set and acknowledged, name and value; empty: no key.
  std::vector<std::pair<std::string, std::string>> environment_overrides_acknowledged;
};

Json TrainingStepJson(const TrainingStep& step);

/// Only `step` is mandatory. `num_processes` stands in for `dp_world_size`, `precision` for
/// `mixed_precision`.
Result<TrainingStep> ParseTrainingStep(const Json& json);

/// One "name: old -> new" for each of accumulation and degrees that the file recorded and that
/// differ (3.12 step 6).
std::vector<std::string> TopologyChanges(const TrainingStep& saved, const TrainingStep& current);

}  // namespace lr::worker
