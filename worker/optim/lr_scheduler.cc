// Applies a schedule to an optimizer's groups: torch's LambdaLR with one factor for all groups.
// Thread: step thread.
#include "worker/optim/optimizer.h"
#include "worker/optim/schedule.h"

namespace lr::worker {

LrScheduler::LrScheduler(Optimizer& optimizer, ScheduleFunction schedule)
    : optimizer_(optimizer), schedule_(std::move(schedule)) {
  for (OptimizerGroup& group : optimizer_.groups()) {
    if (!group.initial_lr) {
      group.initial_lr = group.lr;
    }
    base_lrs_.push_back(*group.initial_lr);
  }
  Apply();
}

void LrScheduler::Step() {
  ++last_epoch_;
  Apply();
}

std::vector<double> LrScheduler::last_lr() const {
  std::vector<double> rates;
  for (const OptimizerGroup& group : optimizer_.groups()) {
    rates.push_back(group.lr);
  }
  return rates;
}

Status LrScheduler::Restore(int64_t last_epoch, std::vector<double> base_lrs) {
  if (last_epoch < 0) {
    return InvalidArgument("the saved schedule is at step {}; it must not be negative", last_epoch);
  }
  if (base_lrs.size() != base_lrs_.size()) {
    return InvalidArgument("the saved schedule has {} base learning rates, the optimizer {} groups",
                           base_lrs.size(),
                           base_lrs_.size());
  }
  last_epoch_ = last_epoch;
  base_lrs_ = std::move(base_lrs);
  for (size_t i = 0; i < base_lrs_.size(); ++i) {
    optimizer_.groups()[i].initial_lr = base_lrs_[i];
  }
  Apply();
  return {};
}

void LrScheduler::Apply() {
  const double factor = schedule_(last_epoch_);
  for (size_t i = 0; i < base_lrs_.size(); ++i) {
    optimizer_.groups()[i].lr = base_lrs_[i] * factor;
  }
}

}  // namespace lr::worker
