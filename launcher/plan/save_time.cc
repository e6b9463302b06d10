#include "launcher/plan/save_time.h"

#include <algorithm>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kSaveMargin = 1.5;
constexpr double kLeadSaves = 2.0;
constexpr double kSteps = 2.0;
constexpr seconds kLead{30};
constexpr seconds kSchedulerMargin{5};

double Seconds(milliseconds span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

TimeCheck CheckTime(const SaveEstimates& estimates, milliseconds available) {
  if (estimates.save_s <= 0.0) {
    return {true,
            fmt::format("{:.1f} s are left; no save was measured yet, so it is tried",
                        Seconds(available))};
  }
  const double needed = kSaveMargin * estimates.save_s + kSteps * estimates.step_s;
  const std::string sum = fmt::format(
      "needed {:.1f} s (1.5 x {:.1f} s for the save, 2 steps of "
      "{:.2f} s), have {:.1f} s",
      needed,
      estimates.save_s,
      estimates.step_s,
      Seconds(available));
  const bool fits = needed <= Seconds(available);
  return {fits, fits ? sum : "NOT_ENOUGH_TIME: " + sum};
}

milliseconds LeadTime(const SaveEstimates& estimates) {
  const double measured = kLeadSaves * estimates.save_s + kSteps * estimates.step_s;
  return kLead + milliseconds(static_cast<int64_t>(measured * 1000.0));
}

milliseconds GraceWithin(milliseconds limit, std::optional<milliseconds> available) {
  if (!available) {
    return limit;
  }
  const milliseconds margin = std::min<milliseconds>(kSchedulerMargin, *available / 2);
  return std::min(limit, *available - margin);
}

}  // namespace lr::launcher
