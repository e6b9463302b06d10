#pragma once
/// The log window: running means since the last log line, their reduction over the ranks, and the
/// line's text (dataset_and_training_loop.md H.4). Plain numbers; the caller brings the reduction.
/// Step thread.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// How a metric is combined over the ranks before it is logged.
enum class MetricReduction { kMean, kMax, kNone };

/// Reduces `values` in place over all ranks; called once for kMean and once for kMax, by every
/// rank.
using ReduceValues = std::function<Status(std::vector<float>& values, MetricReduction kind)>;

/// Every rank's text, by rank; used to agree on the names when a policy reports rank-dependent
/// ones.
using GatherTexts = std::function<Result<std::vector<std::string>>(const std::string& text)>;

/// Counters of samples seen, derived from the step (REQ-BATCH-02).
struct Progress {
  int64_t step = 0;
  int64_t samples = 0;
  double episodes = 0.0;
  double epochs = 0.0;
};

/// (pure)
Progress ProgressAt(int64_t step,
                    int64_t samples_per_step,
                    int64_t num_frames,
                    int64_t num_episodes);

class MetricsWindow {
 public:
  /// The fixed metrics in log order: loss, grad_norm, lr, dataloading_s, preprocessing_s, update_s,
  /// step_s, samples_per_s, gpu_mem_gb with `with_memory`, scale with `with_scale`.
  explicit MetricsWindow(bool with_memory, bool with_scale = false);

  /// One value of this step. An unknown name is a policy's own scalar: appended at the end,
  /// averaged over the ranks. A policy's scalar that collides with a fixed name must not be passed
  /// (see is_fixed).
  void Add(const std::string& name, double value);

  bool is_fixed(const std::string& name) const;

  /// Means over the ranks (union of names: a rank that lacks one does not count), maxima of the
  /// timings, and samples_per_s = samples_per_step / step_s from the slowest rank. Collective.
  Status Reduce(int64_t samples_per_step, const ReduceValues& reduce, const GatherTexts& gather);

  /// Mean of the window by name, in log order; 0 for one without a value.
  std::vector<std::pair<std::string, double>> values() const;

  double value(const std::string& name) const;

  /// "step:200 smpl:3K ep:6 epch:0.12 loss:6.123 …"
  std::string Line(const Progress& progress) const;

  void Reset();

 private:
  struct Metric {
    std::string name;
    std::string label;
    std::string format;
    MetricReduction reduction = MetricReduction::kMean;
    double sum = 0.0;
    int64_t count = 0;

    double mean() const { return count == 0 ? 0.0 : sum / static_cast<double>(count); }
  };

  Metric* Find(const std::string& name);
  Status ReducePolicyScalars(const ReduceValues& reduce, const GatherTexts& gather);

  std::vector<Metric> metrics_;
  size_t fixed_count_ = 0;
};

}  // namespace lr::worker
