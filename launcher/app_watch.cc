/// The part of the App about the progress of the run: boards of native workers on their way to the
/// host, stacks on request, and what the host says about hangs and stragglers.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/app.h"

namespace lr::launcher {
namespace {

constexpr size_t kShownRanks = 4;   ///< whose stacks go to the console
constexpr size_t kShownLines = 24;  ///< of each

/// The beginning of a stack, indented: the main thread, which comes first.
std::string Shown(const RankStack& stack) {
  const size_t first = stack.text.find("\nthread ");
  const size_t second =
      first == std::string::npos ? first : stack.text.find("\nthread ", first + 1);
  std::vector<std::string> lines = Split(Trim(stack.text.substr(0, second)), '\n');
  lines.resize(std::min(lines.size(), kShownLines));
  return "  " + Join(lines, "\n  ") + "\n";
}

/// The stacks of those that matter: the absent, or the first when nobody is known to be.
std::string StacksText(const WatchReport& report, const std::string& folder) {
  std::string text;
  size_t shown = 0;
  for (const RankStack& stack : report.stacks) {
    const bool matters =
        report.ranks.empty() || std::ranges::find(report.ranks, stack.rank) != report.ranks.end();
    if (matters && shown++ < kShownRanks) {
      text += Shown(stack);
    }
  }
  return folder.empty() ? text : fmt::format("{}  all stacks: {}/\n", text, folder);
}

}  // namespace

void App::CollectStacks(const ControlRequest& request) {
  const std::string& id = request.id;
  std::vector<StackCollection::Member> members;
  const std::set<int> asked = service_ ? service_->AskStacks(id, request.rank) : std::set<int>();
  for (const RunningWorker& worker : group_->Running()) {
    if (request.rank.value_or(worker.rank) == worker.rank) {
      members.push_back(
          {.worker = worker, .place = PlaceOf(worker.rank), .asked = asked.contains(worker.rank)});
    }
  }
  collections_[id] = std::make_unique<StackCollection>(
      loop_, std::move(members), [this, id](std::vector<RankStack> stacks) {
        OnStacks(id, std::move(stacks));
      });
}

std::string App::PlaceOf(int rank) const {
  if (!service_ || !service_->progress().contains(rank)) {
    return "";
  }
  const WorkerProgress& now = service_->progress().at(rank);
  return fmt::format("step {}, phase {} for {:.1f} s",
                     now.step,
                     PhaseName(now.phase),
                     std::chrono::duration<double>(now.in_phase).count());
}

/// One message per rank: together they might be too long for one.
void App::OnStacks(const std::string& id, std::vector<RankStack> stacks) {
  const auto self = collections_.extract(id);  // lives until the end of this call
  report_->Stacks(id, stacks);
  for (RankStack& stack : stacks) {
    membership_->ReportStacks(assignment_->epoch, id, {std::move(stack)}, false);
  }
  membership_->ReportStacks(assignment_->epoch, id, {}, true);
}

void App::OnWatched(const WatchReport& report) {
  if (!report_) {
    return;
  }
  report_->Watched(report);
  switch (report.kind) {
    case WatchReport::Kind::kHang:
      hang_ = StacksText(report, report_->StackFolder(report.id));
      return Say(fmt::format("{}\n{}", report.text, hang_.substr(0, hang_.find_last_of('\n'))));
    case WatchReport::Kind::kHangOver:
      hang_.clear();
      return Say(report.text);
    case WatchReport::Kind::kStragglers:
      if (report.ranks != slow_ranks_ && report.id.empty()) {
        slow_ranks_ = report.ranks;
        Say(fmt::format("stragglers: {}", report.text));
      }
      return;
    case WatchReport::Kind::kStacks:
      return;  // for who asked
  }
}

}  // namespace lr::launcher
