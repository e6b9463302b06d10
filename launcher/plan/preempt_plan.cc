#include "launcher/plan/preempt_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kLongestNotice = 7 * 24 * 3600;  // seconds; a larger number is no duration

}  // namespace

std::optional<milliseconds> TimeLeft(const PreemptPlan& plan,
                                     milliseconds since_start,
                                     int64_t now_unix) {
  std::optional<milliseconds> left;
  if (plan.time_limit) {
    left = *plan.time_limit - since_start;
  }
  if (plan.job_end_unix) {
    const milliseconds to_end = seconds(*plan.job_end_unix - now_unix);
    left = left ? std::min(*left, to_end) : to_end;
  }
  return left ? std::optional(std::max(*left, milliseconds(0))) : std::nullopt;
}

milliseconds LastSaveIn(milliseconds left, const SaveEstimates& estimates) {
  return std::max(left - LeadTime(estimates), left / 2);
}

Notice ReadNotice(const std::string& line) {
  const std::string text(Trim(line));
  const std::optional<int64_t> number = ParseInt(text.substr(0, text.find(' ')));
  Notice notice;
  if (number && *number >= 0 && *number <= kLongestNotice) {
    notice.within = seconds(*number);
  }
  notice.text = text.empty() ? "--preempt-watch gave notice"
                             : fmt::format("--preempt-watch gave notice: {}", text);
  return notice;
}

WatchEnd JudgeWatchEnd(int exit_code, int signal) {
  if (signal != 0) {
    return {false,
            fmt::format("the command of --preempt-watch was killed by signal {}: further notices "
                        "are not seen",
                        signal)};
  }
  if (exit_code != 0) {
    return {false,
            fmt::format("the command of --preempt-watch ended with exit code {}: further notices "
                        "are not seen",
                        exit_code)};
  }
  return {true, "the command of --preempt-watch ended"};
}

}  // namespace lr::launcher
