/// RunMachine: one epoch from the complete membership to the end of its workers.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/exit_codes.h"
#include "launcher/plan/failure_label.h"
#include "launcher/rendezvous/epoch_outcome.h"
#include "launcher/rendezvous/node_order.h"
#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {

// ---- committing

/// At most the maximum: members of the epoch before first, then those that come back, then by
/// arrival. Excluded hosts only where the minimum needs them, and then aloud (S-44).
std::vector<MemberId> RunMachine::ChooseMembers() {
  std::vector<MemberId> ids;
  std::vector<MemberId> excluded;
  for (const auto& [id, member] : members_) {
    const bool fit = !health_.WhyExcluded(member.identity.host_name, now_);
    (fit ? ids : excluded).push_back(id);
  }
  for (const MemberId id : excluded) {
    if (static_cast<int>(ids.size()) < rules_.min_nodes) {
      ids.push_back(id);
      Note(fmt::format("{} takes part although it failed twice: there are no others",
                       Describe(members_.at(id))));
    }
  }
  std::ranges::stable_sort(ids, {}, [&](MemberId id) {
    const Member& member = members_.at(id);
    const int standing = member.last_rank ? 0 : member.returning ? 1 : 2;
    return std::pair(standing, member.join_order);
  });
  ids.resize(std::min(ids.size(), static_cast<size_t>(rules_.max_nodes)));
  return ids;
}

void RunMachine::StartCommit(const std::string& why) {
  std::vector<Member*> members;
  std::vector<OrderCandidate> candidates;
  for (const MemberId id : ChooseMembers()) {
    Member& member = members_.at(id);
    members.push_back(&member);
    candidates.push_back({.node_rank = member.identity.node_rank,
                          .serves = member.local,
                          .host_name = member.identity.host_name,
                          .join_order = member.join_order,
                          .scheduler_index = member.identity.scheduler_index,
                          .last_rank = member.last_rank});
    awaited_.insert(id);
  }
  const NodeOrder order = OrderNodes(candidates);
  if (!order.warning.empty()) {
    Note(order.warning);
    SendAll(Waiting{fmt::format("warning: {}", order.warning)}, order.reason);
  }
  AssignRanks(members, order.order);
  state_ = RunState::kCommitting;
  endpoint_known_ = false;
  assigned_ = false;
  commit_deadline_ = now_ + timing_.commit;
  Note(fmt::format("epoch {}: {} nodes, {} ranks, ordered by {}",
                   epoch(),
                   assignment_.nodes.size(),
                   assignment_.world_size,
                   order.reason));
  for (const auto& [id, member] : members_) {
    if (member.part == nullptr) {
      Send(id, Waiting{"a spare: the epoch is complete without this node", true}, why);
    } else if (member.part->node_rank == 0) {
      Send(id, Reserve{epoch(), member.address}, why);
    }
  }
  AskForCheckpoints(why);
}

void RunMachine::AssignRanks(const std::vector<Member*>& members,
                             const std::vector<size_t>& order) {
  ++assignment_.epoch;
  assignment_.nodes.clear();
  assignment_.nodes.reserve(members.size());
  assignment_.world_size = 0;
  for (const size_t index : order) {
    Member& member = *members[index];
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
      member.part == nullptr || member.part->node_rank != 0) {
    return;
  }
  if (!reserved.problem.empty()) {
    return RefuseAll(
        RefusalCode::kEndpoint,
        kExitRendezvousRefused,
        fmt::format("no endpoint for the workers on {}: {}", Describe(member), reserved.problem));
  }
  endpoint_known_ = true;
  assignment_.master_port = reserved.port;
  addresses_ = reserved.alternatives;
  unreached_.clear();
  assignment_.master_addr = reserved.address;
  AssignWhenReady();
}

void RunMachine::Propose(const std::string& address) {
  assignment_.master_addr = address;
  assignment_.nodes.front().address = address;
  commit_deadline_ = now_ + timing_.commit;
  for (const auto& [id, member] : members_) {
    if (member.part != nullptr) {
      awaited_.insert(id);
    }
  }
  SendMembers(Assign{assignment_},
              fmt::format("rank 0 will be at {} port {}", address, assignment_.master_port));
}

void RunMachine::On(MemberId from, const Ack& ack) {
  const bool of_address = ack.address.empty() || ack.address == assignment_.master_addr;
  if (state_ != RunState::kCommitting || !assigned_ || ack.epoch != epoch() || !of_address ||
      awaited_.erase(from) == 0) {
    return;
  }
  members_.at(from).unreachable = ack.problem;
  if (awaited_.empty()) {
    FinishCommit();
  }
}

/// the matrix of who cannot reach what, and the next address if there is one.
bool RunMachine::TryAnotherAddress() {
  std::vector<std::string> problems;
  for (auto& [id, member] : members_) {
    if (!member.unreachable.empty()) {
      problems.push_back(
          fmt::format("{} {}", Describe(member), std::exchange(member.unreachable, "")));
    }
  }
  if (problems.empty()) {
    if (!unreached_.empty()) {
      Note(fmt::format("the workers meet at {}, because {}", assignment_.master_addr, unreached_));
    }
    return false;
  }
  const size_t all = problems.size();
  problems.resize(std::min<size_t>(all, 8));
  unreached_ += fmt::format("{}{} of {} nodes cannot reach rank 0's node at {} port {}: {}",
                            unreached_.empty() ? "" : "; ",
                            all,
                            assignment_.nodes.size(),
                            assignment_.master_addr,
                            assignment_.master_port,
                            Join(problems, "; "));
  if (addresses_.empty()) {
    RefuseAll(RefusalCode::kUnreachable,
              kExitRendezvousRefused,
              fmt::format("{}; give node 0 a --local-addr that all of them can reach", unreached_));
  } else {
    const std::string next = addresses_.front();
    addresses_.erase(addresses_.begin());
    Propose(next);
  }
  return true;
}

void RunMachine::FinishCommit() {
  if (TryAnotherAddress()) {
    return;
  }
  for (const auto& [id, member] : members_) {
    if (member.part != nullptr) {
      awaited_.insert(id);
    }
  }
  state_ = RunState::kRunning;
  missed_.clear();
  running_since_ = now_;
  watch_.Begin(assignment_, now_);
  SendMembers(Go{epoch()}, "every node accepted the epoch");
  OfferGrowth();  // nodes that came while the epoch was committed
}

/// spares become members where the run has room for them. Workers that already end by
/// themselves are left alone.
void RunMachine::OfferGrowth() {
  const auto spares = std::ranges::count_if(members_, [&](const auto& entry) {
    const Member& member = entry.second;
    return member.part == nullptr && !health_.WhyExcluded(member.identity.host_name, now_);
  });
  const int size = static_cast<int>(assignment_.nodes.size());
  const GrowRule rule = rules_.policy.grow;
  if (state_ != RunState::kRunning || spares == 0 || size >= rules_.max_nodes || growing_ ||
      ending_ || !endings_.empty() || rule == GrowRule::kNever) {
    return;
  }
  const std::string text =
      fmt::format("{} more node(s) for the {} of epoch {}", spares, size, epoch());
  if (rule == GrowRule::kImmediate || !rules_.native) {
    return BeginStop({.reason = StopReason::kMembership, .text = text});
  }
  growing_ = true;
  Note(fmt::format("{}: the workers are asked for a checkpoint and a stop", text));
  // With a number, so that it also reaches workers that are only about to attach.
  ControlRequest request{.kind = ControlRequest::Kind::kCheckpointAndStop,
                         .id = fmt::format("growth-{}", epoch())};
  request.number = requests_.Ask(request, {.started = true}, now_).result.number;
  SendMembers(Control{request}, text);
}

void RunMachine::JudgeCommit() {
  if (state_ != RunState::kCommitting || now_ < commit_deadline_) {
    return;
  }
  const double limit = std::chrono::duration<double>(
                           assigned_ || unsurveyed_.empty() ? timing_.commit : timing_.survey)
                           .count();
  std::vector<MemberId> silent;
  for (const MemberId id : awaited_) {
    const bool owes_endpoint = !endpoint_known_ && members_.at(id).part->node_rank == 0;
    if (assigned_ || owes_endpoint || unsurveyed_.contains(id)) {
      silent.push_back(id);
    }
  }
  for (const MemberId id : silent) {
    const std::string text =
        fmt::format("no answer to epoch {} within {:.0f} s (limit of the commit)", epoch(), limit);
    Send(id, Refused{RefusalCode::kProtocol, kExitRendezvousTimeout, text}, text);
    Drop(id, text);
    Leave(id, text);
    if (state_ == RunState::kClosed) {
      return;  // the silent one was the host's own node
    }
  }
}

/// Members that were told the old epoch forget it when they hear of the next one.
void RunMachine::Reform(const std::string& why) {
  state_ = members_.empty() ? RunState::kOpen : RunState::kForming;
  awaited_.clear();
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
  if (!working() || ended.epoch != epoch() || member.part == nullptr) {
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
  watch_.Ended(ending.rank, DescribeEnding(ending));
  Note(fmt::format(
      "{}{}", DescribeWho(ending), ending.stopped_by_us ? ", after we stopped it" : ""));
  if (!ending.succeeded() && state_ == RunState::kRunning) {
    BeginStop({.reason = StopReason::kWorkerFailed, .text = DescribeWho(ending)});
  }
}

void RunMachine::On(MemberId from, const Stopped& stopped) {
  const Member& member = members_.at(from);
  if (!working() || stopped.epoch != epoch() || awaited_.erase(from) == 0) {
    return;
  }
  const int missing = member.part->local_size - CountEnded(member);
  if (state_ == RunState::kRunning && missing > 0) {
    BeginStop({.reason = StopReason::kWorkerFailed,
               .text = fmt::format("{} stopped without saying how {} of its {} workers ended",
                                   Describe(member),
                                   missing,
                                   member.part->local_size)});
  }
  EndWhenAllStopped();
}

void RunMachine::On(MemberId /*from*/, const Beat& /*beat*/) {}

void RunMachine::On(MemberId /*from*/, const Progress& progress) {
  if (!working() || progress.epoch != epoch()) {
    return;
  }
  if (!progress.now.output_dir.empty()) {
    output_dir_ = progress.now.output_dir;
  }
  if (progress.now.estimates.step_s > 0.0) {
    estimates_.step_s = progress.now.estimates.step_s;
  }
  if (progress.now.estimates.save_s > 0.0) {
    estimates_.save_s = progress.now.estimates.save_s;
  }
  if (progress.now.step == 0 && progress.now.checkpoint_step == 0) {
    return;  // nothing is known that a restart could be judged by
  }
  const TrainingProgress known = progress_.value_or(TrainingProgress{});
  progress_ = {std::max(known.step, progress.now.step),
               std::max(known.checkpoint_step, progress.now.checkpoint_step)};
}

}  // namespace lr::launcher
