/// RunMachine: who may join, what an incomplete epoch waits for, and who leaves before workers run.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"
#include "launcher/rendezvous/name_list.h"
#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {
namespace {

double Seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

// ---- joining

void RunMachine::On(MemberId from, const Hello& hello) {
  if (members_.contains(from)) {
    return Note(fmt::format("{} introduced itself twice; ignored", Describe(members_.at(from))));
  }
  DropTwin(hello.identity.node_id);
  if (std::optional<Refused> refused = CheckHello(hello)) {
    return RefuseJoin(from, hello.identity, *std::move(refused));
  }
  Admit(from, hello);
  if (state_ == RunState::kOpen) {
    state_ = RunState::kForming;
  }
  JudgeForming();
  if (state_ == RunState::kForming) {
    Send(from, Waiting{WaitingText()}, "joined");
  } else if (members_.at(from).part == nullptr) {
    Send(from,
         Waiting{fmt::format("a spare of {} nodes (epoch {})", assignment_.nodes.size(), epoch()),
                 /*spare=*/true},
         "the epoch is complete without it");
    OfferGrowth();
  }
}

void RunMachine::Admit(MemberId from, const Hello& hello) {
  Member& member = members_[from];
  member.identity = hello.identity;
  member.address = hello.seen_from;
  member.local = hello.local;
  member.join_order = joins_++;
  member.last_heard = now_;
  member.returning = missed_.erase(hello.identity.host_name) > 0;
  Note(fmt::format("{} {}: {} of {} nodes",
                   Describe(member),
                   member.returning ? "is back" : "joined",
                   members_.size(),
                   rules_.max_nodes));
}

/// A silent member whose own launcher connects anew will not be heard on its old stream any more.
void RunMachine::DropTwin(const std::string& node_id) {
  const auto twin = std::ranges::find_if(members_, [&](const auto& entry) {
    return entry.second.suspect && !entry.second.gone && entry.second.identity.node_id == node_id;
  });
  if (twin != members_.end()) {
    const MemberId id = twin->first;
    Drop(id, "it connected anew");
    Leave(id, "it connected anew");
  }
}

std::optional<Refused> RunMachine::CheckHello(const Hello& hello) const {
  const bool this_run = hello.identity.run_id == rules_.run_id;
  if (this_run && state_ == RunState::kClosed) {
    return Refused{RefusalCode::kClosed,
                   kExitRendezvousRefused,
                   fmt::format("the run is over: {}", outcome_->reason)};
  }
  std::vector<const NodeIdentity*> present;
  for (const auto& [id, member] : members_) {
    if (!member.gone) {
      present.push_back(&member.identity);
    }
  }
  const int here = static_cast<int>(present.size());
  if (this_run && working() && here >= Capacity(rules_)) {
    return Refused{RefusalCode::kFull,
                   kExitRendezvousRefused,
                   fmt::format("the run is full: {} of {} nodes since {:.0f} s (epoch {}), so {} "
                               "comes too late",
                               here,
                               Capacity(rules_),
                               Seconds(now_ - running_since_),
                               epoch(),
                               DescribeNode(hello.identity))};
  }
  const auto excluded = health_.WhyExcluded(hello.identity.host_name, now_);
  if (this_run && excluded && here >= rules_.min_nodes) {
    return Refused{RefusalCode::kExcluded, kExitRendezvousRefused, *excluded};
  }
  return CheckJoin(hello, present, rules_);
}

void RunMachine::RefuseJoin(MemberId from, const NodeIdentity& node, Refused refused) {
  Note(fmt::format("refused {}: {}", DescribeNode(node), refused.text));
  std::string reason = refused.text;
  Send(from, std::move(refused), reason);
  Drop(from, std::move(reason));
}

// ---- waiting

void RunMachine::JudgeForming() {
  if (state_ != RunState::kForming) {
    return;
  }
  if (static_cast<int>(members_.size()) < rules_.min_nodes) {
    call_ends_.reset();
  } else if (!call_ends_) {
    call_ends_ = now_ + (assignment_.attempt == 0 ? timing_.last_call : timing_.reform_last_call);
  }
  if (const std::string why = WhyComplete(); !why.empty()) {
    StartCommit(why);
  }
}

/// Why the epoch may be formed now, in words; empty: not yet. Complete at the maximum at once, but
/// for hosts lost in the last epoch, which are waited for during the last call.
std::string RunMachine::WhyComplete() const {
  const int here = static_cast<int>(members_.size());
  if (now_ < form_after_ || here < rules_.min_nodes) {
    return "";
  }
  if (here >= rules_.max_nodes && missed_.empty()) {
    return "all nodes are here";
  }
  return now_ >= *call_ends_ ? fmt::format("the last call is over with {} nodes", here) : "";
}

void RunMachine::JudgeJoin() {
  if (state_ != RunState::kOpen && state_ != RunState::kForming) {
    return;
  }
  if (now_ >= forming_since_ + timing_.join) {
    RefuseAll(RefusalCode::kJoinTimeout,
              kExitRendezvousTimeout,
              fmt::format("the rendezvous timed out after {:.0f} s (join_timeout): {}",
                          Seconds(timing_.join),
                          WaitingText()));
  } else if (now_ >= next_waiting_line_) {
    next_waiting_line_ = now_ + timing_.waiting_line;
    SendAll(Waiting{WaitingText()}, "periodic");
  }
}

std::string RunMachine::WaitingText() const {
  NameList names;
  for (const auto& [id, member] : members_) {
    names.Add([this, &one = member] { return Describe(one); });
  }
  const int here = static_cast<int>(members_.size());
  if (here >= rules_.min_nodes) {
    const Instant until = std::max(form_after_, call_ends_.value_or(now_));
    return here >= rules_.max_nodes && missed_.empty()
               ? fmt::format("the pause before the next start, {:.1f} s; here: {}",
                             Seconds(std::max(Instant{0}, form_after_ - now_)),
                             names.Text())
               : fmt::format("the last call for up to {} nodes, {:.1f} s; here: {}",
                             rules_.max_nodes,
                             Seconds(std::max(Instant{0}, until - now_)),
                             names.Text());
  }
  const std::string ranks = MissingRanks();
  return fmt::format("waiting for {} of {}{} nodes{}; here: {}; {:.0f} s left",
                     rules_.min_nodes - here,
                     elastic() ? "at least " : "",
                     rules_.min_nodes,
                     ranks.empty() ? "" : fmt::format(" (node rank {})", ranks),
                     names.Text(),
                     Seconds(std::max(Instant{0}, forming_since_ + timing_.join - now_)));
}

/// Known only where every node says its rank, or the scheduler numbered it.
std::string RunMachine::MissingRanks() const {
  std::vector<bool> here(static_cast<size_t>(rules_.max_nodes), false);
  for (const auto& [id, member] : members_) {
    const NodeIdentity& node = member.identity;
    const int rank = node.node_rank.value_or(node.scheduler_index.value_or(-1));
    if (rank < 0 || rank >= rules_.max_nodes) {
      return "";
    }
    here[static_cast<size_t>(rank)] = true;
  }
  NameList missing;
  for (size_t rank = 0; rank < here.size(); ++rank) {
    if (!here[rank]) {
      missing.Add([&] { return std::to_string(rank); });
    }
  }
  return missing.empty() ? "" : missing.Text();
}

// ---- leaving

void RunMachine::On(MemberId from, const Bye& bye) {
  const std::string why = bye.reason.empty() ? "it left" : fmt::format("it left ({})", bye.reason);
  Drop(from, why);
  Leave(from, why);
}

void RunMachine::Leave(MemberId id, const std::string& why) {
  const auto found = members_.find(id);
  if (state_ == RunState::kClosed || found == members_.end() || found->second.gone) {
    return;  // also when another loss of the same moment has ended its membership
  }
  const Member& member = found->second;
  if (working()) {
    return LeaveWhileWorking(id, why);
  }
  const std::string text = fmt::format("{} is no member any more: {}", Describe(member), why);
  Note(text);
  const bool was_host = member.local;
  const bool was_spare = member.part == nullptr;
  members_.erase(id);
  awaited_.erase(id);
  if (was_host) {  // with it goes the rendezvous
    return RefuseAll(RefusalCode::kHostLeft,
                     kExitRendezvousTimeout,
                     fmt::format("the node that serves the rendezvous left: {}", why));
  }
  const int here = static_cast<int>(members_.size());
  if (assignment_.attempt > 0 && here < rules_.min_nodes &&
      !rules_.policy.restarts.max_node_losses) {
    return RefuseAll(RefusalCode::kHostLeft,
                     kExitRendezvousTimeout,
                     fmt::format("{}; {} of {} nodes are left", text, here, rules_.min_nodes));
  }
  if (state_ == RunState::kCommitting) {
    return was_spare ? void() : Reform(text);  // nobody waits for a spare
  }
  state_ = members_.empty() ? RunState::kOpen : RunState::kForming;
}

void RunMachine::RefuseAll(RefusalCode code, int exit_code, const std::string& text) {
  for (auto& [id, member] : members_) {
    if (!member.gone) {
      Send(id, Refused{code, exit_code, text}, text);
      Drop(id, text);
    }
  }
  RunOutcome outcome;
  outcome.exit_code = exit_code;
  outcome.reason = text;
  outcome_ = std::move(outcome);
  state_ = RunState::kClosed;
  Note(fmt::format("closed: {}", text));
}

}  // namespace lr::launcher
