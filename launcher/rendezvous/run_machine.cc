#include "launcher/rendezvous/run_machine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "launcher/rendezvous/name_list.h"

namespace lr::launcher {
namespace {

double Seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
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
      now_(now),
      last_tick_(now),
      forming_since_(now),
      next_waiting_line_(now + timing.waiting_line),
      watch_(rules_.policy.hang),
      output_dir_(rules_.output_dir),
      start_("a run that was started before"),
      random_(rules_.seed) {
  // The workers' locks and checkpoints need an identity also where the nodes were given none.
  assignment_.run_id =
      rules_.run_id.empty() ? fmt::format("unnamed-{:08x}", rules_.seed) : rules_.run_id;
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
    stop_deadline_ += pause;
    watch_.Pause(pause);
  }
  JudgeSilence();
  JudgeCommit();
  Tell(requests_.Tick(now_));
  JudgeStop();
  JudgeForming();
  JudgeJoin();
  JudgeWatch();
  return TakeActions();
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
    Drop(id, why);
    Leave(id, why);
  }
}

// ---- output

std::string RunMachine::NameOf(MemberId member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? "a node" : Describe(found->second);
}

std::string RunMachine::WaitingFor() const {
  switch (state_) {
    case RunState::kOpen:
    case RunState::kForming:
      return WaitingText();
    case RunState::kCommitting:
      if (!endpoint_known_) {
        return fmt::format("the workers' endpoint on {}", Describe(*rank_zero()));
      }
      return assigned_ ? fmt::format("acceptance of epoch {} by {}", epoch(), List(awaited_))
                       : fmt::format("the list of checkpoints of {}", List(unsurveyed_));
    case RunState::kRunning:
      return fmt::format("the workers of epoch {} on {}", epoch(), List(awaited_));
    case RunState::kStopping:
      return fmt::format("the workers to stop on {}", List(awaited_));
    case RunState::kClosed:
      return "";
  }
  return "";
}

std::string RunMachine::List(const std::set<MemberId>& members) const {
  NameList names;
  for (const MemberId id : members) {
    names.Add([&] { return Describe(members_.at(id)); });
  }
  return names.Text();
}

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

/// To those that have a part in the epoch.
void RunMachine::SendMembers(HostMessage message, const std::string& reason) {
  const auto shared = std::make_shared<const HostMessage>(std::move(message));
  for (const auto& [id, member] : members_) {
    if (!member.gone && member.part != nullptr) {
      actions_.push_back({RunAction::Kind::kSend, id, shared, reason});
    }
  }
}

void RunMachine::Drop(MemberId member, std::string reason) {
  actions_.push_back({RunAction::Kind::kDrop, member, nullptr, std::move(reason)});
}

void RunMachine::Note(std::string reason) {
  actions_.push_back({RunAction::Kind::kNote, 0, nullptr, std::move(reason)});
}

RunActions RunMachine::TakeActions() {
  return std::exchange(actions_, {});
}

}  // namespace lr::launcher
