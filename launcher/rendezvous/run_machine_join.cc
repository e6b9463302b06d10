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
  if (std::optional<Refused> refused = CheckHello(hello)) {
    return RefuseJoin(from, hello.identity, *std::move(refused));
  }
  Member& member = members_[from];
  member.identity = hello.identity;
  member.address = hello.seen_from;
  member.local = hello.local;
  member.join_order = joins_++;
  member.last_heard = now_;
  state_ = RunState::kForming;
  Note(fmt::format("{} joined: {} of {} nodes", Describe(member), members_.size(), rules_.nodes));
  JudgeForming();
  if (state_ == RunState::kForming) {
    Send(from, Waiting{WaitingText()}, "joined");
  }
}

std::optional<Refused> RunMachine::CheckHello(const Hello& hello) const {
  if (state_ == RunState::kClosed) {
    return Refused{RefusalCode::kClosed,
                   kExitRendezvousRefused,
                   fmt::format("the run is over: {}", outcome_->reason)};
  }
  std::vector<const NodeIdentity*> present;
  for (const auto& [id, member] : members_) {
    present.push_back(&member.identity);
  }
  if (working() && hello.identity.run_id == rules_.run_id) {
    return Refused{RefusalCode::kFull,
                   kExitRendezvousRefused,
                   fmt::format("the run is full: {} of {} nodes since {:.0f} s (epoch {}), so {} "
                               "comes too late",
                               rules_.nodes,
                               rules_.nodes,
                               Seconds(now_ - running_since_),
                               epoch(),
                               DescribeNode(hello.identity))};
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
  if (state_ == RunState::kForming && static_cast<int>(members_.size()) == rules_.nodes &&
      now_ >= form_after_) {
    StartCommit();
  }
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
  NameList here;
  for (const auto& [id, member] : members_) {
    here.Add([&] { return Describe(member); });
  }
  const int missing = rules_.nodes - static_cast<int>(members_.size());
  if (missing == 0) {
    return fmt::format("the pause before the next start, {:.1f} s; here: {}",
                       Seconds(std::max(Instant{0}, form_after_ - now_)),
                       here.Text());
  }
  const std::string ranks = MissingRanks();
  return fmt::format("waiting for {} of {} nodes{}; here: {}; {:.0f} s left",
                     missing,
                     rules_.nodes,
                     ranks.empty() ? "" : fmt::format(" (node rank {})", ranks),
                     here.Text(),
                     Seconds(std::max(Instant{0}, forming_since_ + timing_.join - now_)));
}

/// Known only where every node says its rank.
std::string RunMachine::MissingRanks() const {
  std::vector<bool> here(static_cast<size_t>(rules_.nodes), false);
  for (const auto& [id, member] : members_) {
    const int rank = member.identity.node_rank.value_or(-1);
    if (rank < 0 || rank >= rules_.nodes) {
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
  Member& member = members_.at(id);
  if (state_ == RunState::kClosed || member.gone) {
    return;
  }
  if (working()) {
    return LeaveWhileWorking(id, why);
  }
  const std::string text = fmt::format("{} is no member any more: {}", Describe(member), why);
  Note(text);
  const bool was_host = member.local;
  members_.erase(id);
  awaited_.erase(id);
  if (was_host) {  // with it goes the rendezvous
    return RefuseAll(RefusalCode::kHostLeft,
                     kExitRendezvousTimeout,
                     fmt::format("the node that serves the rendezvous left: {}", why));
  }
  if (assignment_.attempt > 0 && !rules_.policy.restarts.max_node_losses) {
    return RefuseAll(
        RefusalCode::kHostLeft,
        kExitRendezvousTimeout,
        fmt::format("{}; {} of {} nodes are left", text, members_.size(), rules_.nodes));
  }
  if (state_ == RunState::kCommitting) {
    return Reform(text);
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
