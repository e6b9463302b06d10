#pragma once
/// Learning-rate schedules: a pure multiplier of the base rate, and the counter that checkpoints
/// save.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/optim/optimizer_config.h"

namespace lr::worker {

class Optimizer;

/// Factor on the base learning rate before update `step` (0-based) of a run of `total_steps`.
using ScheduleFunction = std::function<double(int64_t step)>;

/// (pure) The schedule of a run of `total_steps`; formulas and sources in schedule_formulas.cc.
/// `base_lr` is the optimizer's rate, which only diffuser/polynomial needs. Unknown type, missing
/// warm-up or rate: an error.
Result<ScheduleFunction> MakeSchedule(const SchedulerConfig& config,
                                      int64_t total_steps,
                                      std::optional<double> base_lr = std::nullopt);

/// (pure) What MakeSchedule changed to fit the run, as one line for the log; empty when nothing.
std::string DescribeScheduleScaling(const SchedulerConfig& config, int64_t total_steps);

/// torch's LambdaLR: sets the rate of step 0 at construction, then one Step() per loop step.
class LrScheduler {
 public:
  /// Sets every group's initial_lr (when unset) and its lr for step 0. The optimizer must outlive
  /// this.
  LrScheduler(Optimizer& optimizer, ScheduleFunction schedule);

  void Step();

  int64_t last_epoch() const { return last_epoch_; }

  const std::vector<double>& base_lrs() const { return base_lrs_; }

  std::vector<double> last_lr() const;

  /// Continues after `last_epoch` steps with these base rates; applies the rate at once.
  Status Restore(int64_t last_epoch, std::vector<double> base_lrs);

 private:
  void Apply();

  Optimizer& optimizer_;
  ScheduleFunction schedule_;
  std::vector<double> base_lrs_;
  int64_t last_epoch_ = 0;
};

}  // namespace lr::worker
