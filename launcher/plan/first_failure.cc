#include "launcher/plan/first_failure.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

bool FailedByItself(const WorkerEnding& ending) {
  return !ending.succeeded() && !ending.stopped_by_us;
}

std::string Who(const WorkerEnding& ending) {
  return fmt::format("rank {} (node {}, {}, local rank {})",
                     ending.rank,
                     ending.node_rank,
                     ending.host_name,
                     ending.local_rank);
}

}  // namespace

FirstFailure ChooseFirstFailure(std::vector<WorkerEnding> endings) {
  std::ranges::stable_sort(endings, {}, &WorkerEnding::end_unix_ns);
  FirstFailure result;
  std::optional<WorkerEnding> first_secondary;
  for (const WorkerEnding& ending : endings) {
    if (ending.succeeded()) {
      continue;
    }
    result.failures.push_back(ending);
    if (!FailedByItself(ending)) {
      continue;
    }
    if (!LabelFailure(ending).secondary) {
      if (!result.root_cause) {
        result.root_cause = ending;
      }
    } else if (!first_secondary) {
      first_secondary = ending;
    }
  }
  result.only_secondary = !result.root_cause && first_secondary;
  if (result.only_secondary) {
    result.root_cause = first_secondary;
  }
  if (!result.root_cause) {
    result.reason = "no worker failed by itself";
  } else {
    result.reason = fmt::format("{} ended with {}{}",
                                Who(*result.root_cause),
                                DescribeEnding(*result.root_cause),
                                result.only_secondary ? "; the first cause was not seen" : "");
  }
  return result;
}

}  // namespace lr::launcher
