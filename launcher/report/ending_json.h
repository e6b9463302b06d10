#pragma once
/// (pure) How the end of a worker is written in the machine-readable reports.

#include "common/io/json.h"
#include "launcher/plan/assignment.h"

namespace lr::launcher {

/// Who ended and how. Exactly one of "exit_code" and "signal" (its name) is not null.
Json EndingToJson(const WorkerEnding& ending);

}  // namespace lr::launcher
