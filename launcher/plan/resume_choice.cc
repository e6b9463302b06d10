#include "launcher/plan/resume_choice.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

constexpr size_t kMostSkipped = 8;  ///< told one by one

/// Newest first.
using ByStep = std::map<std::pair<int64_t, std::string>, CheckpointCandidate, std::greater<>>;

const CheckpointCandidate* Find(const CheckpointView& view, const std::string& name) {
  const auto found = std::ranges::find(view.candidates, name, &CheckpointCandidate::name);
  return found == view.candidates.end() ? nullptr : &*found;
}

/// Why `name` cannot be resumed from on this node; empty: it can.
std::string Objection(const NodeCheckpointView& node, const std::string& name) {
  if (!node.view.problem.empty()) {
    return fmt::format("{} cannot look: {}", node.node, node.view.problem);
  }
  const CheckpointCandidate* candidate = Find(node.view, name);
  if (candidate == nullptr) {
    return fmt::format("{} does not see it", node.node);
  }
  return candidate->verdict.complete ? ""
                                     : fmt::format("{} ({})", candidate->verdict.reason, node.node);
}

/// The checkpoints of this run that any node sees, complete where all of them agree. `last` is what
/// the first node says: it is the one of rank 0, which published.
ByStep Merge(const std::string& run_id, const std::vector<NodeCheckpointView>& views) {
  ByStep merged;
  for (const NodeCheckpointView& seen : views) {
    for (const CheckpointCandidate& candidate : seen.view.candidates) {
      // One without a readable manifest names no run: whether it is ours does not matter.
      const bool damaged = !candidate.verdict.complete && candidate.run_id.empty();
      if (candidate.run_id == run_id || damaged) {
        merged.emplace(std::pair(candidate.step, candidate.name), candidate);
      }
    }
  }
  for (auto& [key, candidate] : merged) {
    const CheckpointCandidate* first = Find(views.front().view, candidate.name);
    candidate.is_last = first != nullptr && first->is_last;
    for (const NodeCheckpointView& node : views) {
      if (std::string objection = Objection(node, candidate.name); !objection.empty()) {
        candidate.verdict = {false, std::move(objection)};
        break;
      }
    }
  }
  return merged;
}

}  // namespace

ResumeChoice ChooseResume(const std::string& output_dir,
                          const std::string& run_id,
                          const std::vector<NodeCheckpointView>& views) {
  std::vector<CheckpointCandidate> candidates;
  ResumeChoice choice;
  for (const auto& [key, candidate] : Merge(run_id, views)) {
    if (!candidate.verdict.complete) {
      choice.skipped.push_back(
          fmt::format("checkpoint {} is skipped: {}", candidate.name, candidate.verdict.reason));
    }
    candidates.push_back(candidate);
  }
  if (choice.skipped.size() > kMostSkipped) {
    const size_t more = choice.skipped.size() - kMostSkipped;
    choice.skipped.resize(kMostSkipped);
    choice.skipped.push_back(fmt::format("{} older ones are skipped, too", more));
  }
  const CheckpointChoice chosen = ChooseCheckpoint(candidates);
  if (!chosen.index) {
    choice.reason =
        fmt::format("there is no complete checkpoint of this run below '{}'", output_dir);
    return choice;
  }
  const CheckpointCandidate& best = candidates[*chosen.index];
  choice.directory = fmt::format("{}/{}/{}", output_dir, kCheckpointsFolder, best.name);
  choice.step = best.step;
  choice.reason = chosen.reason;
  return choice;
}

std::vector<std::string> DescribeResume(const ResumeChoice& choice, const ResumeFacts& facts) {
  const int64_t lost = std::max<int64_t>(0, facts.reached_step - choice.step);
  const std::string loss = lost == 0   ? ""
                           : lost == 1 ? "; 1 step is lost"
                                       : fmt::format("; {} steps are lost", lost);
  std::vector<std::string> lines;
  if (choice.directory.empty()) {
    lines.push_back(fmt::format("{}: {}, so the workers start as their command line says{}",
                                facts.start,
                                choice.reason,
                                loss));
  } else {
    lines.push_back(fmt::format(
        "{}: resuming from step {}{} ({})", facts.start, choice.step, loss, choice.directory));
  }
  lines.insert(lines.end(), choice.skipped.begin(), choice.skipped.end());
  return lines;
}

}  // namespace lr::launcher
