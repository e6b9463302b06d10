#include "worker/train/metrics.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::worker {

Progress ProgressAt(int64_t step,
                    int64_t samples_per_step,
                    int64_t num_frames,
                    int64_t num_episodes) {
  Progress progress;
  progress.step = step;
  progress.samples = step * samples_per_step;
  const double samples = static_cast<double>(progress.samples);
  progress.episodes =
      samples / (static_cast<double>(num_frames) / static_cast<double>(num_episodes));
  progress.epochs = samples / static_cast<double>(num_frames);
  return progress;
}

MetricsWindow::MetricsWindow(bool with_memory, bool with_scale) {
  metrics_ = {
      {"loss", "loss", "{:.3f}", MetricReduction::kMean},
      {"grad_norm", "grdn", "{:.3f}", MetricReduction::kNone},
      {"lr", "lr", "{:.1e}", MetricReduction::kNone},
      {"dataloading_s", "data_s", "{:.3f}", MetricReduction::kMax},
      {"preprocessing_s", "prep_s", "{:.3f}", MetricReduction::kMax},
      {"update_s", "updt_s", "{:.3f}", MetricReduction::kMax},
      {"step_s", "step_s", "{:.3f}", MetricReduction::kMax},
      {"samples_per_s", "samples/s", "{:.0f}", MetricReduction::kNone},
  };
  if (with_memory) {
    metrics_.push_back({"gpu_mem_gb", "mem_gb", "{:.2f}", MetricReduction::kMax});
  }
  if (with_scale) {
    metrics_.push_back({"scale", "scale", "{:g}", MetricReduction::kNone});
  }
  fixed_count_ = metrics_.size();
}

MetricsWindow::Metric* MetricsWindow::Find(const std::string& name) {
  const auto it = std::find_if(
      metrics_.begin(), metrics_.end(), [&](const Metric& metric) { return metric.name == name; });
  return it == metrics_.end() ? nullptr : &*it;
}

bool MetricsWindow::is_fixed(const std::string& name) const {
  return std::any_of(metrics_.begin(),
                     metrics_.begin() + static_cast<std::ptrdiff_t>(fixed_count_),
                     [&](const Metric& metric) { return metric.name == name; });
}

void MetricsWindow::Add(const std::string& name, double value) {
  Metric* metric = Find(name);
  if (metric == nullptr) {
    metrics_.push_back({name, name, "{:.3f}", MetricReduction::kMean});
    metric = &metrics_.back();
  }
  metric->sum += value;
  ++metric->count;
}

Status MetricsWindow::Reduce(int64_t samples_per_step,
                             const ReduceValues& reduce,
                             const GatherTexts& gather) {
  for (const MetricReduction kind : {MetricReduction::kMean, MetricReduction::kMax}) {
    std::vector<float> values;
    for (size_t i = 0; i < fixed_count_; ++i) {
      if (metrics_[i].reduction == kind) {
        values.push_back(static_cast<float>(metrics_[i].mean()));
      }
    }
    LR_TRY(reduce(values, kind));
    size_t next = 0;
    for (size_t i = 0; i < fixed_count_; ++i) {
      if (metrics_[i].reduction == kind) {
        metrics_[i].sum = values[next++];
        metrics_[i].count = 1;
      }
    }
  }
  LR_TRY(ReducePolicyScalars(reduce, gather));
  const double step_s = value("step_s");
  Metric* rate = Find("samples_per_s");
  rate->sum = step_s > 0 ? static_cast<double>(samples_per_step) / step_s : 0.0;
  rate->count = 1;
  return {};
}

Status MetricsWindow::ReducePolicyScalars(const ReduceValues& reduce, const GatherTexts& gather) {
  std::vector<std::string> mine;
  for (size_t i = fixed_count_; i < metrics_.size(); ++i) {
    mine.push_back(metrics_[i].name);
  }
  LR_ASSIGN(const std::vector<std::string> all, gather(Join(mine, "\n")));
  std::set<std::string> names;
  for (const std::string& text : all) {
    for (const std::string& name : Split(text, '\n')) {
      if (!name.empty()) {
        names.insert(name);
      }
    }
  }
  if (names.empty()) {
    return {};
  }
  // Sorted union of the names; a rank without a value contributes nothing and is not counted.
  std::vector<float> sums;
  for (const std::string& name : names) {
    const Metric* metric = Find(name);
    const bool has = metric != nullptr && metric->count > 0;
    sums.push_back(has ? static_cast<float>(metric->mean()) : 0.0F);
    sums.push_back(has ? 1.0F : 0.0F);
  }
  LR_TRY(reduce(sums, MetricReduction::kMean));
  size_t next = 0;
  for (const std::string& name : names) {
    if (Find(name) == nullptr) {
      metrics_.push_back({name, name, "{:.3f}", MetricReduction::kMean});
    }
    Metric* metric = Find(name);
    const float share = sums[next + 1];  // ranks that had it / all ranks
    metric->sum = share > 0 ? sums[next] / share : 0.0;
    metric->count = share > 0 ? 1 : 0;
    next += 2;
  }
  return {};
}

std::vector<std::pair<std::string, double>> MetricsWindow::values() const {
  std::vector<std::pair<std::string, double>> result;
  result.reserve(metrics_.size());
  for (const Metric& metric : metrics_) {
    result.emplace_back(metric.name, metric.mean());
  }
  return result;
}

double MetricsWindow::value(const std::string& name) const {
  for (const Metric& metric : metrics_) {
    if (metric.name == name) {
      return metric.mean();
    }
  }
  return 0.0;
}

std::string MetricsWindow::Line(const Progress& progress) const {
  std::string line = fmt::format("step:{} smpl:{} ep:{} epch:{:.2f}",
                                 ShortNumber(static_cast<double>(progress.step)),
                                 ShortNumber(static_cast<double>(progress.samples)),
                                 ShortNumber(progress.episodes),
                                 progress.epochs);
  for (const Metric& metric : metrics_) {
    line += fmt::format(
        " {}:{}", metric.label, fmt::format(fmt::runtime(metric.format), metric.mean()));
  }
  return line;
}

void MetricsWindow::Reset() {
  for (Metric& metric : metrics_) {
    metric.sum = 0.0;
    metric.count = 0;
  }
}

}  // namespace lr::worker
