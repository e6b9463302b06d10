#include "launcher/rendezvous/epoch_outcome.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

constexpr size_t kMostFailures = 1000;  // told one by one; a run may have 131 072 ranks
constexpr size_t kMostWordy = 16;       // with the program's own words
constexpr int kExitHang = 1;            // no worker gave a code, and none of ours means it

/// What every node is told must fit into a message, however many ranks failed.
void Bound(std::vector<WorkerEnding>& failures) {
  failures.resize(std::min(failures.size(), kMostFailures));
  for (size_t i = kMostWordy; i < failures.size(); ++i) {
    failures[i].message.clear();
    failures[i].last_lines.clear();
  }
}

bool StoppedForGrowth(const EpochFacts& facts) {
  return !facts.stop && facts.growing && std::ranges::any_of(facts.endings, [](const auto& entry) {
    return entry.second.stopped_early;
  });
}

/// Whatever stopped them came too late: the run is over.
bool FinishedAll(const EpochFacts& facts) {
  return static_cast<int>(facts.endings.size()) == facts.world_size &&
         std::ranges::all_of(facts.endings, [](const auto& entry) {
           const WorkerEnding& ending = entry.second;
           return ending.succeeded() && !ending.stopped_early && !ending.stopped_by_us;
         });
}

}  // namespace

int PreemptedCode(bool saved) {
  return saved ? kExitPreemptedSaved : kExitPreemptedUnsaved;
}

std::string DescribeWho(const WorkerEnding& ending) {
  return fmt::format("rank {} on node {} ({}) ended with {}",
                     ending.rank,
                     ending.node_rank,
                     ending.host_name,
                     DescribeEnding(ending));
}

RunOutcome DecideOutcome(const EpochFacts& facts) {
  std::vector<WorkerEnding> endings;
  for (const auto& [rank, ending] : facts.endings) {
    endings.push_back(ending);
  }
  FirstFailure first = ChooseFirstFailure(std::move(endings));
  RunOutcome outcome;
  outcome.failures = std::move(first.failures);
  Bound(outcome.failures);
  const std::optional<StopOrder>& stop = facts.stop;
  // S-14: what follows the loss of a node is its consequence; nobody saw how its own workers ended.
  const bool node_is_the_cause = !facts.lost.empty() && (stop->reason == StopReason::kNodeLost ||
                                                         !first.root_cause || first.only_secondary);
  if (StoppedForGrowth(facts)) {
    outcome.reason = "the workers stopped at a checkpoint, for more nodes";
  } else if (!stop || (stop->reason == StopReason::kPreempted && FinishedAll(facts))) {
    outcome.succeeded = true;
    outcome.reason = fmt::format("all {} ranks exited 0", facts.world_size);
  } else if (stop->reason == StopReason::kMembership) {  // what failed on the way follows from it
    outcome.exit_code = 128 + stop->signal;
    outcome.reason = fmt::format("stopped: {}", stop->text);
    outcome.failures.clear();
  } else if (stop->reason == StopReason::kHang) {  // nobody failed by himself
    outcome.exit_code = kExitHang;
    outcome.reason = stop->text;
  } else if (stop->reason == StopReason::kPreempted) {
    outcome.exit_code = PreemptedCode(facts.saved);
    outcome.reason = fmt::format(
        "pre-empted: {}; {}; please queue the run again",
        stop->text,
        facts.saved ? "a new checkpoint is complete" : "there is no complete new checkpoint");
    outcome.failures.clear();
  } else if (node_is_the_cause) {
    outcome.exit_code = kExitRendezvousTimeout;
    outcome.reason = facts.lost.front();
  } else if (first.root_cause) {
    outcome.exit_code = first.root_cause->job_exit_code();
    outcome.reason = first.reason;
    outcome.root_cause = std::move(first.root_cause);
  } else if (stop->reason == StopReason::kWorkerFailed) {
    outcome.exit_code = kExitInternal;
    outcome.reason = stop->text;
  } else {
    outcome.exit_code = 128 + stop->signal;
    outcome.reason = fmt::format("stopped: {}", stop->text);
  }
  return outcome;
}

}  // namespace lr::launcher
