#include "launcher/rendezvous/run_machine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/exit_codes.h"

namespace lr::launcher {
namespace {

constexpr size_t kMostNames = 8;  // of nodes, in one line for people

double Seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

/// "a, b, c and 5 more"; "nobody".
std::string Names(const std::vector<std::string>& names) {
  if (names.empty()) {
    return "nobody";
  }
  const size_t shown = std::min(names.size(), kMostNames);
  const std::string text = Join({names.begin(), names.begin() + static_cast<long>(shown)}, ", ");
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

}  // namespace

std::string_view RunStateName(RunState state) {
  constexpr std::string_view kNames[] = {
      "OPEN", "FORMING", "COMMITTING", "RUNNING", "STOPPING", "CLOSED"};
  return kNames[static_cast<size_t>(state)];
}

RunMachine::RunMachine(RunRules rules, RunTiming timing, Instant now)
    : rules_(std::move(rules)),
      timing_(timing),
      opened_(now),
      last_tick_(now),
      now_(now),
      next_waiting_line_(now + timing.waiting_line) {
  assignment_.run_id = rules_.run_id;
}

// ---- inputs

RunActions RunMachine::Handle(MemberId from, const NodeMessage& message, Instant now) {
  now_ = now;
  const auto member = members_.find(from);
  if (member == members_.end()) {
    if (const Hello* hello = std::get_if<Hello>(&message)) {
      On(from, *hello);
    }  // else: late words of a stream that was dropped or refused
    return TakeActions();
  }
  if (member->second.gone || state_ == RunState::kClosed) {
    return TakeActions();
  }
  member->second.last_heard = now;
  if (std::exchange(member->second.suspect, false)) {
    Note(fmt::format("{} is heard again", Describe(member->second)));
  }
  std::visit([&](const auto& body) { On(from, body); }, message);
  return TakeActions();
}

RunActions RunMachine::StreamLost(MemberId member, const std::string& why, Instant now) {
  now_ = now;
  if (members_.contains(member)) {
    Leave(member, why);
  }
  return TakeActions();
}

RunActions RunMachine::Tick(Instant now) {
  now_ = now;
  const Instant pause = now - std::exchange(last_tick_, now);
  if (pause > timing_.own_pause) {
    for (auto& [id, member] : members_) {
      member.last_heard = std::min(now, member.last_heard + pause);
    }
    commit_deadline_ += pause;
  }
  JudgeSilence();
  JudgeCommit();
  JudgeJoin();
  return TakeActions();
}

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
  if (static_cast<int>(members_.size()) == rules_.nodes) {
    StartCommit();
  } else {
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
  actions_.push_back({RunAction::Kind::kDrop, from, nullptr, std::move(reason)});
}

// ---- waiting

void RunMachine::JudgeJoin() {
  if (state_ != RunState::kOpen && state_ != RunState::kForming) {
    return;
  }
  if (now_ >= opened_ + timing_.join) {
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

void RunMachine::JudgeSilence() {
  std::vector<std::pair<MemberId, Instant>> silent;
  for (auto& [id, member] : members_) {
    const Instant silence = now_ - member.last_heard;
    if (member.local || member.gone || silence < timing_.suspect) {
      continue;
    }
    if (silence >= timing_.lost) {
      silent.emplace_back(id, silence);
    } else if (!std::exchange(member.suspect, true)) {
      Note(fmt::format("{} is silent for {:.1f} s (lost after {:.0f} s)",
                       Describe(member),
                       Seconds(silence),
                       Seconds(timing_.lost)));
    }
  }
  for (const auto& [id, silence] : silent) {
    const std::string why = fmt::format(
        "silent for {:.1f} s (limit {:.0f} s)", Seconds(silence), Seconds(timing_.lost));
    actions_.push_back({RunAction::Kind::kDrop, id, nullptr, why});
    Leave(id, why);
  }
}

std::string RunMachine::ListMembers(bool (*wanted)(const Member&)) const {
  std::vector<std::string> names;
  for (const auto& [id, member] : members_) {
    if (!member.gone && wanted(member)) {
      names.push_back(Describe(member));
    }
  }
  return Names(names);
}

std::string RunMachine::WaitingText() const {
  const Instant left = std::max(Instant{0}, opened_ + timing_.join - now_);
  const std::string missing = MissingRanks();
  return fmt::format("waiting for {} of {} nodes{}; here: {}; {:.0f} s left",
                     rules_.nodes - static_cast<int>(members_.size()),
                     rules_.nodes,
                     missing.empty() ? "" : fmt::format(" (node rank {})", missing),
                     ListMembers([](const Member&) { return true; }),
                     Seconds(left));
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
  std::vector<std::string> missing;
  for (size_t rank = 0; rank < here.size(); ++rank) {
    if (!here[rank]) {
      missing.push_back(fmt::format("{}", rank));
    }
  }
  return missing.empty() ? "" : Names(missing);
}

std::string RunMachine::WaitingFor() const {
  switch (state_) {
    case RunState::kOpen:
    case RunState::kForming:
      return WaitingText();
    case RunState::kCommitting:
      return endpoint_known_ ? fmt::format("acceptance of epoch {} by {}",
                                           epoch(),
                                           ListMembers([](const Member& m) { return !m.acked; }))
                             : fmt::format("the workers' endpoint on {}", Describe(*rank_zero()));
    case RunState::kRunning:
      return fmt::format("the workers of epoch {} on {}", epoch(), ListMembers([](const Member& m) {
                           return !m.stopped;
                         }));
    case RunState::kStopping:
      return fmt::format("the workers to stop on {}",
                         ListMembers([](const Member& m) { return !m.stopped; }));
    case RunState::kClosed:
      return "";
  }
  return "";
}

// ---- leaving

void RunMachine::On(MemberId from, const Bye& bye) {
  const std::string why = bye.reason.empty() ? "it left" : fmt::format("it left ({})", bye.reason);
  actions_.push_back({RunAction::Kind::kDrop, from, nullptr, why});
  Leave(from, why);
}

void RunMachine::Leave(MemberId id, const std::string& why) {
  Member& member = members_.at(id);
  if (state_ == RunState::kClosed || member.gone) {
    return;
  }
  if (working()) {
    return LeaveWhileWorking(member, why);
  }
  const std::string text = fmt::format("{} is no member any more: {}", Describe(member), why);
  Note(text);
  const bool was_host = member.local;
  members_.erase(id);
  if (was_host) {  // with it goes the rendezvous
    return RefuseAll(RefusalCode::kHostLeft,
                     kExitRendezvousTimeout,
                     fmt::format("the node that serves the rendezvous left: {}", why));
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
      actions_.push_back({RunAction::Kind::kDrop, id, nullptr, text});
    }
  }
  RunOutcome outcome;
  outcome.exit_code = exit_code;
  outcome.reason = text;
  outcome_ = std::move(outcome);
  state_ = RunState::kClosed;
  Note(fmt::format("closed: {}", text));
}

// ---- output

std::string RunMachine::Describe(const Member& member) const {
  return member.part == nullptr
             ? DescribeNode(member.identity)
             : fmt::format("node {} ({})", member.part->node_rank, member.identity.host_name);
}

void RunMachine::Send(MemberId to, HostMessage message, std::string reason) {
  actions_.push_back({RunAction::Kind::kSend,
                      to,
                      std::make_shared<const HostMessage>(std::move(message)),
                      std::move(reason)});
}

void RunMachine::SendAll(HostMessage message, const std::string& reason) {
  const auto shared = std::make_shared<const HostMessage>(std::move(message));
  for (const auto& [id, member] : members_) {
    if (!member.gone) {
      actions_.push_back({RunAction::Kind::kSend, id, shared, reason});
    }
  }
}

void RunMachine::Note(std::string reason) {
  actions_.push_back({RunAction::Kind::kNote, 0, nullptr, std::move(reason)});
}

RunActions RunMachine::TakeActions() {
  return std::exchange(actions_, {});
}

}  // namespace lr::launcher
