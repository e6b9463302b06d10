#pragma once
/// (pure) How lr-launch ends once the outcome of the run is known: exit code and what people are
/// told (spec 1.5, L-20). Called once by the App.

#include <string>

#include "launcher/plan/assignment.h"
#include "launcher/plan/failure_summary.h"

namespace lr::launcher {

struct ExitPlan {
  int code = 0;
  std::string text;  ///< for stderr, newline included; empty: nothing to say
};

struct ExitStyle {
  bool fold = false;   ///< --exit-code=torchrun: every code but 0 becomes 1
  bool quiet = false;  ///< one line instead of the summary; the code stays
};

ExitPlan DecideExit(const RunOutcome& outcome, const FailureContext& context, ExitStyle style);

}  // namespace lr::launcher
