#include "launcher/plan/exit_plan.h"

#include <fmt/format.h>

#include "common/contract/exit_codes.h"

namespace lr::launcher {

ExitPlan DecideExit(const RunOutcome& outcome, const FailureContext& context, bool fold) {
  if (outcome.succeeded && outcome.exit_code == 0) {
    return {};
  }
  ExitPlan plan{.code = outcome.exit_code, .text = ""};
  if (plan.code <= 0 || plan.code > 255) {  // a shell could not see it
    plan.code = kExitInternal;
  }
  if (fold) {
    plan.code = 1;
  }
  plan.text = outcome.root_cause ? FailureSummary(outcome, context)
                                 : fmt::format("lr-launch: {}{}\n",
                                               outcome.reason,
                                               outcome.next.empty() ? "" : "; " + outcome.next);
  return plan;
}

}  // namespace lr::launcher
