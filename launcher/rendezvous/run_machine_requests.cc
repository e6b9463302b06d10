/// RunMachine: checkpoints that somebody asked for (spec 5). The book is checkpoint_requests.h.

#include <fmt/format.h>

#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {

void RunMachine::On(MemberId from, const ControlAsk& ask) {
  const std::string who = fmt::format("asked by {}", Describe(members_.at(from)));
  if (ask.request.kind == ControlRequest::Kind::kStacks ||
      ask.request.kind == ControlRequest::Kind::kStragglers) {
    if (state_ != RunState::kRunning) {
      return Note(fmt::format(
          "request {} ({}) is dropped: the run is {}", ask.request.id, who, RunStateName(state_)));
    }
    return Carry(watch_.Ask(ask.request, now_));
  }
  if (ask.request.kind == ControlRequest::Kind::kStop) {
    ending_ = true;
    return SendMembers(Control{ask.request}, who);
  }
  const CheckpointRequests::Answer answer =
      requests_.Ask(ask.request,
                    {.not_running = WhyNoRequests(),
                     .native = rules_.native,
                     .started = progress_ && progress_->step > 0,
                     .estimates = estimates_,
                     .when_late = rules_.policy.when_late},
                    now_);
  Note(fmt::format("request {} ({}): {}{}",
                   answer.result.id,
                   who,
                   RequestStateName(answer.result.state),
                   answer.result.reason.empty() ? "" : ", " + answer.result.reason));
  if (answer.deliver) {
    ending_ = ending_ || answer.result.stop;
    ControlRequest numbered = ask.request;
    numbered.number = answer.result.number;
    SendMembers(Control{numbered}, who);
    SendMembers(RequestUpdate{answer.result}, who);
  } else {
    Send(from, RequestUpdate{answer.result}, who);
  }
}

std::string RunMachine::WhyNoRequests() const {
  return state_ == RunState::kRunning
             ? ""
             : fmt::format("the run is {}: no worker can save now", RunStateName(state_));
}

void RunMachine::On(MemberId /*from*/, const Saved& saved) {
  if (working() && saved.epoch == epoch()) {
    const int reports = rules_.native ? assignment_.world_size : 1;  // its marker is seen once
    Tell(requests_.Saved(saved.news, reports, now_));
  }
}

void RunMachine::Tell(const CheckpointRequests::Changes& changes) {
  for (const CheckpointResult& result : changes) {
    SendMembers(RequestUpdate{result},
                fmt::format("request {} is {}", result.id, RequestStateName(result.state)));
  }
}

/// Whether a pre-empted run got its last checkpoint (exit 85).
bool RunMachine::SavedSinceStop() const {
  return progress_ && progress_->checkpoint_step > saved_before_stop_;
}

}  // namespace lr::launcher
