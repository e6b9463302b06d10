#pragma once
/// Stacks and stragglers of a run: from its running lr-launch, which asks all nodes, or from what
/// was collected last when it has ended. Blocks up to half a minute; one thread.

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/io/json.h"
#include "tools/lr_ctl/run_finder.h"

namespace lr {

struct RunStacks {
  Json ranks;        ///< [{"rank", "text"}], ascending
  std::string note;  ///< for stderr: what is missing, or when they were collected
};

/// Errors say why there are none.
Result<RunStacks> GetStacks(const FoundRun& run, std::optional<int> rank);

/// {"text", "ranks"}
Result<Json> GetStragglers(const FoundRun& run);

}  // namespace lr
