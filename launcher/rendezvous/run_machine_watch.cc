/// RunMachine: what the host sees of the progress of the run, and what follows (run_watch.h).

#include <algorithm>

#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {

void RunMachine::On(MemberId from, const Boards& boards) {
  const NodeAssignment* part = members_.at(from).part;
  if (!working() || boards.epoch != epoch() || part == nullptr) {
    return;
  }
  for (const WorkerBoard& board : boards.boards) {
    if (board.rank >= part->first_rank && board.rank < part->first_rank + part->local_size) {
      watch_.Update(board, now_);
    }
  }
}

void RunMachine::On(MemberId from, const Stacks& stacks) {
  const NodeAssignment* part = members_.at(from).part;
  if (state_ == RunState::kRunning && stacks.epoch == epoch() && part != nullptr) {
    watch_.Add(part->node_rank, stacks);
  }
}

void RunMachine::JudgeWatch() {
  if (state_ == RunState::kRunning) {
    Carry(watch_.Tick(now_, rules_.policy.restarts.max_restarts - history_.restarts));
  }
}

void RunMachine::Carry(const RunWatch::Actions& actions) {
  if (actions.collect) {
    SendMembers(Control{*actions.collect}, "stacks are collected: " + actions.collect->id);
  }
  for (const WatchReport& report : actions.reports) {
    SendMembers(Watched{epoch(), report},
                report.text.empty() ? "stacks " + report.id : report.text);
  }
  if (actions.stop && state_ == RunState::kRunning) {
    final_ = final_ || actions.final;
    BeginStop(*actions.stop);
  }
}

}  // namespace lr::launcher
