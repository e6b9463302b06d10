/// RunMachine: stopping an epoch, and what follows: another one, or the end of the run.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"
#include "launcher/plan/first_failure.h"
#include "launcher/rendezvous/epoch_outcome.h"
#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {

namespace {

constexpr std::chrono::seconds kNoticeMargin{10};  // beyond the time that a notice left

}  // namespace

// ---- stopping

void RunMachine::On(MemberId from, const StopRequest& request) {
  const std::string text =
      request.order.text.empty() ? "a request without a reason" : request.order.text;
  Member& member = members_.at(from);
  if (MayLeave(member, request.order)) {
    member.leaving_signal = request.order.signal;
    member.preempted = request.order.reason == StopReason::kPreempted;
    if (member.part == nullptr || !working()) {
      return LetGo(from, text);
    }
    Note(fmt::format("{} leaves: {}", Describe(member), text));
    if (state_ == RunState::kRunning) {
      BeginStop({.reason = member.preempted ? StopReason::kPreempted : StopReason::kMembership,
                 .text = fmt::format("{} leaves: {}", Describe(member), text),
                 .within_ms = request.order.within_ms});
    }
    return;
  }
  if (!working()) {  // no workers: nothing to stop, and nothing to wait for any more
    return RefuseAll(
        RefusalCode::kClosed,
        128 + request.order.signal,
        fmt::format("{} ended the run before it started: {}", Describe(members_.at(from)), text));
  }
  final_ = true;
  if (state_ == RunState::kRunning) {
    BeginStop({request.order.reason, text, request.order.signal, request.order.within_ms});
  }
}

/// Leaving is not closing: in an elastic run a signal to one launcher takes its node out, as long
/// as enough others stay. The host's own node takes the run along, and a cancellation means the
/// run.
bool RunMachine::MayLeave(const Member& member, const StopOrder& order) const {
  const auto staying = std::ranges::count_if(members_, [&](const auto& entry) {
    const Member& other = entry.second;
    return &other != &member && !other.gone && other.leaving_signal == 0;
  });
  const bool one_node =
      order.reason == StopReason::kSignal || order.reason == StopReason::kPreempted;
  return elastic() && one_node && !member.local && !final_ && staying >= rules_.min_nodes;
}

void RunMachine::LetGo(MemberId id, const std::string& why) {
  const Member& member = members_.at(id);
  RunOutcome outcome;
  outcome.exit_code =
      member.preempted ? PreemptedCode(SavedSinceStop()) : 128 + member.leaving_signal;
  outcome.reason = fmt::format("this node left the run, which goes on: {}", why);
  Send(id, Closed{outcome}, why);
  Drop(id, why);
  if (!working()) {
    return Leave(id, why);
  }
  members_.erase(id);
}

/// A node whose workers are all accounted for may go; any other takes the epoch with it.
void RunMachine::LeaveWhileWorking(MemberId id, const std::string& why) {
  Member& member = members_.at(id);
  if (member.part == nullptr) {
    Note(fmt::format("{}, a spare, is gone: {}", Describe(member), why));
    final_ = final_ || member.local;
    members_.erase(id);
    return;
  }
  member.gone = true;
  final_ = final_ || member.local;  // with it goes the rendezvous
  const int missing = member.part->local_size - CountEnded(member);
  const bool stopped = awaited_.erase(id) == 0;
  const std::string text =
      fmt::format("{} with {} running workers is lost: {}", Describe(member), missing, why);
  if (stopped && missing == 0) {
    Note(fmt::format("{} is gone after its workers had ended: {}", Describe(member), why));
  } else {
    lost_.push_back(text);
    Note(text);
    if (member.leaving_signal == 0) {
      health_.Blame(member.identity.host_name, why, now_);
    }
    if (state_ == RunState::kRunning) {
      BeginStop({.reason = StopReason::kNodeLost, .text = text});
    }
  }
  EndWhenAllStopped();
}

void RunMachine::BeginStop(const StopOrder& order) {
  state_ = RunState::kStopping;
  stop_ = order;
  saved_before_stop_ = progress_ ? progress_->checkpoint_step : 0;
  stop_deadline_ =
      now_ + std::max(timing_.stop, std::chrono::milliseconds(order.within_ms) + kNoticeMargin);
  SendMembers(Stop{epoch(), order}, order.text);
}

/// A node that never reports an empty process set is lost, so that the others can go on. The host's
/// own node cannot be: without it there is no run.
void RunMachine::JudgeStop() {
  if (state_ != RunState::kStopping || now_ < stop_deadline_) {
    return;
  }
  const std::set<MemberId> late = awaited_;
  for (const MemberId id : late) {
    if (working() && !members_.at(id).local) {
      const std::string why = fmt::format("its workers are not gone {:.0f} s after the stop",
                                          std::chrono::duration<double>(timing_.stop).count());
      Drop(id, why);
      Leave(id, why);
    }
  }
}

// ---- what follows

void RunMachine::EndWhenAllStopped() {
  if (!working() || !awaited_.empty()) {
    return;
  }
  RunOutcome outcome = DecideOutcome({.endings = endings_,
                                      .stop = stop_,
                                      .lost = lost_,
                                      .world_size = assignment_.world_size,
                                      .growing = growing_ && !ending_,
                                      .saved = SavedSinceStop()});
  Tell(requests_.WorkersGone(outcome.succeeded,
                             fmt::format("the workers ended first: {}", outcome.reason)));
  if (outcome.succeeded || final_) {  // S-33: nothing restarts a finished run
    return Close(std::move(outcome));
  }
  const EpochEnd end = DescribeEnd(outcome);
  if (outcome.root_cause && LabelFailure(*outcome.root_cause).name == "device error") {
    health_.Blame(outcome.root_cause->host_name, "a device error", now_);
  }
  const double uniform = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
  const RestartDecision next = DecideRestart(end, history_, rules_.policy.restarts, uniform);
  history_ = Remember(std::move(history_), end, next);
  outcome.next = next.reason;
  outcome.exit_code = next.exit_code.value_or(outcome.exit_code);
  if (next.again) {
    return FormAgain(std::move(outcome), next);
  }
  Close(std::move(outcome));
}

EpochEnd RunMachine::DescribeEnd(const RunOutcome& outcome) const {
  int left = 0;
  for (const auto& [id, member] : members_) {
    left += member.gone || member.leaving_signal != 0 ? 0 : 1;
  }
  EpochEndKind kind = EpochEndKind::kWorkerFailed;
  if (!stop_ || stop_->reason == StopReason::kMembership) {
    kind = EpochEndKind::kMembership;
  } else if (stop_->reason == StopReason::kPreempted) {
    kind = EpochEndKind::kPreempted;
  } else if (!outcome.root_cause && !lost_.empty()) {
    kind = EpochEndKind::kNodeLost;
  }
  return {.kind = kind,
          .root_cause = outcome.root_cause,
          .progress = progress_,
          .ran_for = now_ - running_since_,
          .nodes_lost = static_cast<int>(lost_.size()),
          .nodes_left = left,
          .min_nodes = rules_.min_nodes};
}

void RunMachine::FormAgain(RunOutcome ended, const RestartDecision& next) {
  const std::string text = fmt::format("epoch {}: {}; {}", epoch(), ended.reason, next.reason);
  Note(text);
  for (auto it = members_.begin(); it != members_.end();) {
    const auto [id, member] = *it++;
    if (member.leaving_signal != 0 && !member.gone) {
      LetGo(id, stop_->text);
    } else if (member.gone) {
      if (member.leaving_signal == 0) {
        missed_.insert(member.identity.host_name);
      }
      members_.erase(id);
    }
  }
  if (std::ranges::all_of(members_, [](const auto& e) { return e.second.part != nullptr; })) {
    missed_.clear();  // without spares there is nobody to prefer them to
  }
  SendMembers(Reforming{epoch(), std::move(ended)}, text);
  for (auto& [id, member] : members_) {
    member.last_rank =
        member.part == nullptr ? std::nullopt : std::optional(member.part->node_rank);
    member.returning = false;
    member.part = nullptr;
  }
  ++assignment_.attempt;
  assignment_.restart_count += next.counts ? 1 : 0;
  start_ = next.counts ? fmt::format("restart {} of {}",
                                     assignment_.restart_count,
                                     rules_.policy.restarts.max_restarts)
                       : fmt::format("attempt {}", assignment_.attempt);
  reached_step_ = progress_ ? progress_->step : 0;
  endings_.clear();
  progress_.reset();
  stop_.reset();
  lost_.clear();
  growing_ = false;
  call_ends_.reset();
  state_ = RunState::kForming;
  forming_since_ = now_;
  form_after_ = now_ + next.delay;
  next_waiting_line_ = now_ + timing_.waiting_line;
  JudgeForming();
}

void RunMachine::Close(RunOutcome outcome) {
  state_ = RunState::kClosed;
  outcome_ = std::move(outcome);
  Note(fmt::format(
      "closed: {}{}", outcome_->reason, outcome_->next.empty() ? "" : "; " + outcome_->next));
  SendAll(Closed{*outcome_}, outcome_->reason);
}

}  // namespace lr::launcher
