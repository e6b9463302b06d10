#include "launcher/report/failure_history.h"

#include <algorithm>

#include "launcher/plan/failure_label.h"
#include "launcher/report/ending_json.h"

namespace lr::launcher {
namespace {

constexpr size_t kKeptLines = 20;
constexpr double kSecond = 1e9;  // nanoseconds

Json LastLines(const WorkerEnding& ending) {
  const std::vector<std::string>& lines = ending.last_lines;
  const size_t kept = std::min(lines.size(), kKeptLines);
  return std::vector<std::string>(lines.end() - static_cast<std::ptrdiff_t>(kept), lines.end());
}

Json FailureToJson(int attempt, const WorkerEnding& ending) {
  const FailureLabel label = LabelFailure(ending);
  Json failure = EndingToJson(ending);
  failure["attempt"] = attempt;
  failure["ended_unix"] = static_cast<double>(ending.end_unix_ns) / kSecond;
  failure["cause"] = label.name;
  failure["evidence"] = label.evidence;
  failure["secondary"] = label.secondary;
  failure["last_lines"] = LastLines(ending);
  failure["last_lines_are_stdout"] = ending.last_lines_are_stdout;
  return failure;
}

}  // namespace

void FailureHistory::Begin(int attempt) {
  earlier_ = ToJson();
  current_ = Json::array();
  attempt_ = attempt;
}

void FailureHistory::Add(const WorkerEnding& ending) {
  if (!ending.succeeded() && current_.size() < kKeptPerAttempt) {
    current_.push_back(FailureToJson(attempt_, ending));
  }
}

void FailureHistory::Complete(const std::vector<WorkerEnding>& failures) {
  if (failures.empty()) {
    return;
  }
  current_ = Json::array();
  for (const WorkerEnding& failure : failures) {
    Add(failure);
  }
}

Json FailureHistory::ToJson() const {
  Json all = earlier_;
  for (const Json& failure : current_) {
    all.push_back(failure);
  }
  if (all.size() > kKept) {
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(kKept));
  }
  return all;
}

}  // namespace lr::launcher
