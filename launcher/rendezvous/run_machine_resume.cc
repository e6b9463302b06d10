/// RunMachine: from which checkpoint the workers of an epoch go on (C-20, S-45).

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {

/// Every node of the epoch lists what it sees; the choice is made once, here. The first epoch asks
/// only where the command line names a directory: a job that was queued again after a pre-emption
/// finds its own checkpoints there.
void RunMachine::AskForCheckpoints(const std::string& why) {
  unsurveyed_.clear();
  seen_.clear();
  assignment_.resume_from.clear();
  assignment_.resume_lines.clear();
  if (!rules_.native || output_dir_.empty()) {
    return;
  }
  unsurveyed_ = awaited_;
  commit_deadline_ = now_ + timing_.survey;
  SendMembers(Survey{epoch(), output_dir_}, why);
}

void RunMachine::On(MemberId from, const Surveyed& surveyed) {
  if (state_ != RunState::kCommitting || surveyed.epoch != epoch() ||
      unsurveyed_.erase(from) == 0) {
    return;
  }
  seen_[members_.at(from).part->node_rank] = surveyed.view;
  AssignWhenReady();
}

void RunMachine::AssignWhenReady() {
  if (!endpoint_known_ || !unsurveyed_.empty() || assigned_) {
    return;
  }
  assigned_ = true;
  ChooseCheckpoint();
  Propose(assignment_.master_addr);
}

void RunMachine::ChooseCheckpoint() {
  std::vector<NodeCheckpointView> views;
  for (auto& [rank, view] : seen_) {
    const NodeAssignment& node = assignment_.nodes[static_cast<size_t>(rank)];
    views.push_back({fmt::format("node {} ({})", rank, node.host_name), std::move(view)});
  }
  seen_.clear();
  if (views.empty()) {
    return;
  }
  const ResumeChoice choice = ChooseResume(output_dir_, assignment_.run_id, views);
  assignment_.resume_from = choice.directory;
  if (assignment_.attempt > 0 || !choice.directory.empty() || !choice.skipped.empty()) {
    assignment_.resume_lines = DescribeResume(choice, {start_, reached_step_});
  }
  Note(fmt::format("epoch {}: {}", epoch(), choice.reason));
}

}  // namespace lr::launcher
