#include "worker/checkpoint/scheduler_file.h"

#include <cmath>

namespace lr::worker {

Json SchedulerState(const LrScheduler& scheduler) {
  Json lambdas = Json::array();
  for (size_t i = 0; i < scheduler.base_lrs().size(); ++i) {
    lambdas.push_back(nullptr);
  }
  return {{"base_lrs", scheduler.base_lrs()},
          {"last_epoch", scheduler.last_epoch()},
          {"_step_count", scheduler.last_epoch() + 1},
          {"_is_initial", false},
          {"_get_lr_called_within_step", false},
          {"_last_lr", scheduler.last_lr()},
          {"lr_lambdas", std::move(lambdas)}};
}

Status LoadScheduler(const std::filesystem::path& file, LrScheduler& scheduler) {
  LR_ASSIGN(const Json json, ReadJsonFile(file.string()));
  if (!json.is_object() || !json.contains("last_epoch") ||
      !json["last_epoch"].is_number_integer() || json["last_epoch"].get<int64_t>() < 0) {
    return InvalidArgument("'{}': `last_epoch` is missing or not a count", file.string());
  }
  std::vector<double> base_lrs = scheduler.base_lrs();
  if (json.contains("base_lrs")) {
    const Json& saved = json["base_lrs"];
    if (!saved.is_array() || saved.size() != base_lrs.size()) {
      return InvalidArgument("'{}': `base_lrs` has {} values, the optimizer has {} groups",
                             file.string(),
                             saved.size(),
                             base_lrs.size());
    }
    for (size_t i = 0; i < base_lrs.size(); ++i) {
      if (!saved[i].is_number() || !std::isfinite(saved[i].get<double>())) {
        return InvalidArgument("'{}': `base_lrs[{}]` is not a finite number", file.string(), i);
      }
      base_lrs[i] = saved[i].get<double>();
    }
  }
  return scheduler.Restore(json["last_epoch"].get<int64_t>(), std::move(base_lrs))
      .WithContext("'{}'", file.string());
}

}  // namespace lr::worker
