/// The second half of RunMachine: one epoch from the complete membership to the outcome.

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/exit_codes.h"
#include "launcher/plan/first_failure.h"
#include "launcher/rendezvous/node_order.h"
#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {
namespace {

constexpr size_t kMostFailures = 1000;  // told one by one; a run may have 131 072 ranks
constexpr size_t kMostWordy = 16;       // with the program's own words

/// What every node is told must fit into a message, however many ranks failed.
void Bound(std::vector<WorkerEnding>& failures) {
  failures.resize(std::min(failures.size(), kMostFailures));
  for (size_t i = kMostWordy; i < failures.size(); ++i) {
    failures[i].message.clear();
    failures[i].last_lines.clear();
  }
}

std::string Who(const WorkerEnding& ending) {
  return fmt::format("rank {} on node {} ({}) ended with {}",
                     ending.rank,
                     ending.node_rank,
                     ending.host_name,
                     DescribeEnding(ending));
}

}  // namespace

// ---- committing

void RunMachine::StartCommit() {
  std::vector<Member*> members;
  std::vector<OrderCandidate> candidates;
  for (auto& [id, member] : members_) {
    members.push_back(&member);
    candidates.push_back({.node_rank = member.identity.node_rank,
                          .serves = member.local,
                          .host_name = member.identity.host_name,
                          .join_order = member.join_order});
  }
  const NodeOrder order = OrderNodes(candidates);
  if (!order.warning.empty()) {
    Note(order.warning);
    SendAll(Waiting{fmt::format("warning: {}", order.warning)}, order.reason);
  }
  ++assignment_.epoch;
  assignment_.nodes.clear();
  assignment_.nodes.reserve(members.size());
  assignment_.world_size = 0;
  for (const size_t index : order.order) {
    Member& member = *members[index];
    member.acked = member.stopped = false;
    member.unreachable.clear();
    assignment_.nodes.push_back({.node_id = member.identity.node_id,
                                 .host_name = member.identity.host_name,
                                 .address = member.identity.local_addr.empty()
                                                ? member.address
                                                : member.identity.local_addr,
                                 .node_rank = static_cast<int>(assignment_.nodes.size()),
                                 .local_size = member.identity.local_size,
                                 .first_rank = assignment_.world_size});
    member.part = &assignment_.nodes.back();
    assignment_.world_size += member.identity.local_size;
  }
  state_ = RunState::kCommitting;
  endpoint_known_ = false;
  commit_deadline_ = now_ + timing_.commit;
  Note(fmt::format("epoch {}: {} nodes, {} ranks, ordered by {}",
                   epoch(),
                   assignment_.nodes.size(),
                   assignment_.world_size,
                   order.reason));
  for (const auto& [id, member] : members_) {
    if (member.part->node_rank == 0) {
      Send(id, Reserve{epoch(), member.address}, "all nodes are here");
    }
  }
}

const RunMachine::Member* RunMachine::rank_zero() const {
  const auto it = std::ranges::find_if(members_, [](const auto& entry) {
    return entry.second.part != nullptr && entry.second.part->node_rank == 0;
  });
  return it == members_.end() ? nullptr : &it->second;
}

void RunMachine::On(MemberId from, const Reserved& reserved) {
  Member& member = members_.at(from);
  if (state_ != RunState::kCommitting || reserved.epoch != epoch() || endpoint_known_ ||
      member.part->node_rank != 0) {
    return;
  }
  if (!reserved.problem.empty()) {
    return RefuseAll(
        RefusalCode::kEndpoint,
        kExitRendezvousRefused,
        fmt::format("no endpoint for the workers on {}: {}", Describe(member), reserved.problem));
  }
  endpoint_known_ = true;
  assignment_.master_addr = reserved.address;
  assignment_.master_port = reserved.port;
  assignment_.nodes.front().address = reserved.address;
  commit_deadline_ = now_ + timing_.commit;
  SendAll(Assign{assignment_},
          fmt::format("rank 0 will be at {} port {}", reserved.address, reserved.port));
}

void RunMachine::On(MemberId from, const Ack& ack) {
  Member& member = members_.at(from);
  if (state_ != RunState::kCommitting || !endpoint_known_ || ack.epoch != epoch()) {
    return;
  }
  member.acked = true;
  member.unreachable = ack.problem;
  if (std::ranges::all_of(members_, [](const auto& entry) { return entry.second.acked; })) {
    FinishCommit();
  }
}

/// every line of the matrix at once, so that nobody has to try node by node.
void RunMachine::FinishCommit() {
  std::vector<std::string> problems;
  for (const auto& [id, member] : members_) {
    if (!member.unreachable.empty()) {
      problems.push_back(fmt::format("{} {}", Describe(member), member.unreachable));
    }
  }
  if (!problems.empty()) {
    const size_t all = problems.size();
    problems.resize(std::min<size_t>(all, 8));
    return RefuseAll(RefusalCode::kUnreachable,
                     kExitRendezvousRefused,
                     fmt::format("{} of {} nodes cannot reach rank 0's node at {} port {}: {}; "
                                 "give node 0 a --local-addr that all of them can reach",
                                 all,
                                 members_.size(),
                                 assignment_.master_addr,
                                 assignment_.master_port,
                                 Join(problems, "; ")));
  }
  state_ = RunState::kRunning;
  running_since_ = now_;
  SendAll(Go{epoch()}, "every node accepted the epoch");
}

void RunMachine::JudgeCommit() {
  if (state_ != RunState::kCommitting || now_ < commit_deadline_) {
    return;
  }
  const double limit = std::chrono::duration<double>(timing_.commit).count();
  std::vector<MemberId> silent;
  for (const auto& [id, member] : members_) {
    if (endpoint_known_ ? !member.acked : member.part->node_rank == 0) {
      silent.push_back(id);
    }
  }
  for (const MemberId id : silent) {
    const std::string text =
        fmt::format("no answer to epoch {} within {:.0f} s (limit of the commit)", epoch(), limit);
    Send(id, Refused{RefusalCode::kProtocol, kExitRendezvousTimeout, text}, text);
    actions_.push_back({RunAction::Kind::kDrop, id, nullptr, text});
    Leave(id, text);
    if (state_ == RunState::kClosed) {
      return;  // the silent one was the host's own node
    }
  }
}

/// Members that were told the old epoch forget it when they hear of the next one.
void RunMachine::Reform(const std::string& why) {
  state_ = members_.empty() ? RunState::kOpen : RunState::kForming;
  for (auto& [id, member] : members_) {
    member.part = nullptr;
  }
  Note(fmt::format("epoch {} is formed anew: {}", epoch(), why));
  SendAll(Waiting{fmt::format("{}; {}", why, WaitingText())}, why);
}

// ---- running

int RunMachine::CountEnded(const Member& member) const {
  const auto first = endings_.lower_bound(member.part->first_rank);
  const auto last = endings_.lower_bound(member.part->first_rank + member.part->local_size);
  return static_cast<int>(std::distance(first, last));
}

void RunMachine::On(MemberId from, const Ended& ended) {
  const Member& member = members_.at(from);
  if (!working() || ended.epoch != epoch()) {
    return;
  }
  const NodeAssignment& part = *member.part;
  WorkerEnding ending = ended.ending;
  if (ending.rank < part.first_rank || ending.rank >= part.first_rank + part.local_size) {
    return Note(fmt::format("{} reports the end of rank {}, which is not its own; ignored",
                            Describe(member),
                            ending.rank));
  }
  ending.node_rank = part.node_rank;
  ending.host_name = part.host_name;
  if (!endings_.emplace(ending.rank, ending).second) {
    return;  // told twice
  }
  Note(fmt::format("{}{}", Who(ending), ending.stopped_by_us ? ", after we stopped it" : ""));
  if (!ending.succeeded() && state_ == RunState::kRunning) {
    BeginStop({.reason = StopReason::kWorkerFailed, .text = Who(ending)});
  }
}

void RunMachine::On(MemberId from, const Stopped& stopped) {
  Member& member = members_.at(from);
  if (!working() || stopped.epoch != epoch() || member.stopped) {
    return;
  }
  member.stopped = true;
  const int missing = member.part->local_size - CountEnded(member);
  if (state_ == RunState::kRunning && missing > 0) {
    BeginStop({.reason = StopReason::kWorkerFailed,
               .text = fmt::format("{} stopped without saying how {} of its {} workers ended",
                                   Describe(member),
                                   missing,
                                   member.part->local_size)});
  }
  CloseWhenAllStopped();
}

void RunMachine::On(MemberId /*from*/, const Beat& /*beat*/) {}

void RunMachine::On(MemberId from, const StopRequest& request) {
  const std::string text =
      request.order.text.empty() ? "a request without a reason" : request.order.text;
  if (state_ == RunState::kRunning) {
    BeginStop({request.order.reason, text, request.order.signal});
  } else if (!working()) {  // no workers yet: nothing to stop, and nothing to wait for any more
    RefuseAll(
        RefusalCode::kClosed,
        128 + request.order.signal,
        fmt::format("{} ended the run before it started: {}", Describe(members_.at(from)), text));
  }
}

void RunMachine::On(MemberId from, const ControlAsk& ask) {
  if (state_ != RunState::kRunning) {
    return Note(fmt::format("request {} of {} is dropped: the run is {}",
                            ask.request.id,
                            Describe(members_.at(from)),
                            RunStateName(state_)));
  }
  SendAll(Control{ask.request}, fmt::format("asked by {}", Describe(members_.at(from))));
}

// ---- stopping

/// A node whose workers are all accounted for may go; any other takes the run with it.
void RunMachine::LeaveWhileWorking(Member& member, const std::string& why) {
  member.gone = true;
  const int missing = member.part->local_size - CountEnded(member);
  const bool finished = member.stopped && missing == 0;
  member.stopped = true;
  const std::string text =
      fmt::format("{} with {} running workers is lost: {}", Describe(member), missing, why);
  if (finished) {
    Note(fmt::format("{} is gone after its workers had ended: {}", Describe(member), why));
  } else {
    lost_.push_back(text);
    Note(text);
    if (state_ == RunState::kRunning) {
      BeginStop({.reason = StopReason::kNodeLost, .text = text});
    }
  }
  CloseWhenAllStopped();
}

void RunMachine::BeginStop(const StopOrder& order) {
  state_ = RunState::kStopping;
  stop_ = order;
  SendAll(Stop{epoch(), order}, order.text);
}

void RunMachine::CloseWhenAllStopped() {
  if (working() &&
      std::ranges::all_of(members_, [](const auto& entry) { return entry.second.stopped; })) {
    Close(DecideOutcome());
  }
}

RunOutcome RunMachine::DecideOutcome() const {
  std::vector<WorkerEnding> endings;
  for (const auto& [rank, ending] : endings_) {
    endings.push_back(ending);
  }
  FirstFailure first = ChooseFirstFailure(std::move(endings));
  RunOutcome outcome;
  outcome.failures = std::move(first.failures);
  Bound(outcome.failures);
  // S-14: what follows the loss of a node is its consequence; nobody saw how its own workers ended.
  const bool node_is_the_cause = !lost_.empty() && (stop_->reason == StopReason::kNodeLost ||
                                                    !first.root_cause || first.only_secondary);
  if (!stop_) {
    outcome.succeeded = true;
    outcome.reason = fmt::format("all {} ranks exited 0", assignment_.world_size);
  } else if (node_is_the_cause) {
    outcome.exit_code = kExitRendezvousTimeout;
    outcome.reason = lost_.front();
  } else if (first.root_cause) {
    outcome.exit_code = first.root_cause->job_exit_code();
    outcome.reason = first.reason;
    outcome.root_cause = std::move(first.root_cause);
  } else if (stop_->reason == StopReason::kWorkerFailed) {
    outcome.exit_code = kExitInternal;
    outcome.reason = stop_->text;
  } else {
    outcome.exit_code = 128 + stop_->signal;
    outcome.reason = fmt::format("stopped: {}", stop_->text);
  }
  return outcome;
}

void RunMachine::Close(RunOutcome outcome) {
  state_ = RunState::kClosed;
  outcome_ = std::move(outcome);
  Note(fmt::format("closed: {}", outcome_->reason));
  SendAll(Closed{*outcome_}, outcome_->reason);
}

}  // namespace lr::launcher
