#include "launcher/plan/exit_plan.h"

#include <fmt/format.h>

#include "common/contract/exit_codes.h"

namespace lr::launcher {

ExitPlan DecideExit(const RunOutcome& outcome, const FailureContext& context, ExitStyle style) {
  if (outcome.succeeded && outcome.exit_code == 0) {
    return {};
  }
  ExitPlan plan{.code = outcome.exit_code, .text = ""};
  if (plan.code <= 0 || plan.code > 255) {  // a shell could not see it
    plan.code = kExitInternal;
  }
  if (style.fold) {
    plan.code = 1;
  }
  const std::string next = outcome.next.empty() ? "" : "; " + outcome.next;
  plan.text = outcome.root_cause && !style.quiet
                  ? FailureSummary(outcome, context)
                  : fmt::format("lr-launch: {}{}\n", outcome.reason, next);
  if (!style.quiet) {
    plan.text += context.hang;
  }
  return plan;
}

}  // namespace lr::launcher
