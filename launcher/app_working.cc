/// The part of the App from the workers' start to their end: endings, stops, requests, signals.

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "launcher/app.h"
#include "launcher/plan/exit_plan.h"
#include "launcher/plan/failure_label.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

constexpr size_t kShortId = 8;
constexpr std::chrono::milliseconds kLeaveWait{500};  // for the host to hear that we left

std::string_view KindName(ControlRequest::Kind kind) {
  switch (kind) {
    case ControlRequest::Kind::kCheckpoint:
      return "checkpoint";
    case ControlRequest::Kind::kCheckpointAndStop:
      return "checkpoint and stop";
    case ControlRequest::Kind::kStop:
      return "stop";
    case ControlRequest::Kind::kStacks:
      return "stacks";
    case ControlRequest::Kind::kStragglers:
      return "stragglers";
  }
  return "";
}

}  // namespace

// ---- working

void App::OnProgress(const WorkerProgress& now) {
  if (report_ && assignment_) {  // not a late word of an epoch that is over
    report_->Progress(now);
    membership_->ReportProgress(assignment_->epoch,
                                {now.step, now.checkpoint_step, now.output_dir, now.estimates});
    membership_->ReportBoard(assignment_->epoch, now);
  }
}

void App::OnSaved(const SaveNews& news) {
  if (assignment_) {
    membership_->ReportSave(assignment_->epoch, news);
  }
  if (!news.running && phase_ == RunPhase::kWorking) {
    ArmTimeLimit();  // saves take longer or shorter than was known
  }
}

void App::OnWorkerEnded(const WorkerEnding& ending) {
  WorkerEnding reported = ending;
  if (service_) {
    const auto progress = service_->progress().find(ending.rank);
    if (progress != service_->progress().end()) {
      reported.stopped_early = ending.succeeded() && progress->second.goodbye == "stopped";
      if (reported.message.empty()) {
        reported.message = progress->second.failure;
      }
    }
  }
  report_->Ended(reported);
  endings_[reported.rank] = reported;
  membership_->ReportEnded(assignment_->epoch, reported);
  if (!ending.succeeded() && phase_ == RunPhase::kWorking) {  // the host is not waited for
    const std::string text = fmt::format("rank {} (local rank {}, pid {}) ended with {}",
                                         ending.rank,
                                         ending.local_rank,
                                         ending.pid,
                                         DescribeEnding(ending));
    Say(text + (group_->running() > 0 ? "; stopping the others" : ""));
    report_->Stopping(text);
    StopWorkers(StopReason::kWorkerFailed, SIGTERM);
  }
}

void App::OnStop(const StopOrder& order) {
  if (phase_ == RunPhase::kWorking) {
    Say(fmt::format("stopping: {}", order.text));
    report_->Stopping(order.text);
  }
  if (group_) {
    StopWorkers(order.reason, order.signal, order.within_ms);
  } else if (phase_ == RunPhase::kJoining && assignment_) {  // stopped between commit and go
    phase_ = RunPhase::kClosing;
    membership_->ReportStopped(assignment_->epoch);
  }
}

void App::StopWorkers(StopReason reason, int signal, int64_t within_ms) {
  if (phase_ != RunPhase::kWorking) {
    return;
  }
  phase_ = RunPhase::kStopping;
  limit_timer_.cancel();
  const std::chrono::milliseconds left(within_ms);
  group_->Stop(reason,
               signal,
               within_ms == 0
                   ? plan_.shutdown_timeout
                   : GraceWithin(plan_.shutdown_auto ? left : plan_.shutdown_timeout, left));
}

void App::OnWorkersGone(const std::vector<ProcessInfo>& leftover) {
  for (const ProcessInfo& process : leftover) {
    Say(fmt::format("warning: process {} ({}) of this run cannot be killed; its state is {}",
                    process.pid,
                    process.command,
                    process.state));
  }
  phase_ = RunPhase::kClosing;
  watch_.reset();
  marker_.reset();
  limit_timer_.cancel();
  if (outcome_) {
    ExplainOutcome();
    return;
  }
  membership_->ReportStopped(assignment_->epoch);
}

/// The run goes on without this epoch's workers: everything of theirs is forgotten.
void App::OnReforming(const RunOutcome& ended) {
  console_.Say(
      DecideExit(ended, Context(), {.fold = plan_.fold_exit_code, .quiet = plan_.quiet}).text);
  if (report_) {
    report_->Reforming(ended);
  }
  group_.reset();
  assignment_.reset();
  collections_.clear();
  hang_.clear();
  if (service_) {
    service_->Forget();
  }
  if (phase_ == RunPhase::kClosing) {
    phase_ = RunPhase::kJoining;
  }
}

void App::OnRequest(const ControlRequest& request) {
  if (request.kind == ControlRequest::Kind::kStop) {
    return Ask(request);
  }
  if (!group_ || phase_ != RunPhase::kWorking) {
    return;
  }
  Decide("request", fmt::format("{} of {}", KindName(request.kind), request.id));
  if (request.kind == ControlRequest::Kind::kStacks) {
    return CollectStacks(request);
  }
  if (!plan_.program.native) {
    return AskForeign(request);
  }
  if (!service_ || service_->Send(request) == 0) {  // not attached (yet): the signal says the same
    ForwardUserSignal(request.kind == ControlRequest::Kind::kCheckpoint ? SIGUSR1 : SIGUSR2);
  }
}

void App::OnUpdate(const CheckpointResult& result) {
  if (report_) {
    report_->Updated(result);
  }
  if (result.state == RequestState::kFailed || result.state == RequestState::kSkipped) {
    Say(fmt::format(
        "request {}: {}: {}", result.id, RequestStateName(result.state), result.reason));
  }
}

// ---- signals

void App::OnSignal(int signal) {
  const SignalDecision decision = DecideSignal(signal,
                                               {.phase = phase_,
                                                .native = plan_.program.native,
                                                .stop_signals = plan_.signals,
                                                .rules = plan_.signal_rules,
                                                .askable = plan_.foreign_checkpoints.signal != 0});
  Decide("signal", decision.reason);
  switch (decision.action) {
    case SignalAction::kLeave:
      return report_ ? EndRun(signal, decision.reason) : LeaveJoin(signal, decision.reason);
    case SignalAction::kStop:
      return EndRun(signal, decision.reason);
    case SignalAction::kKill:
      EndRun(signal, decision.reason);  // a run that stops for another reason must not start again
      return group_->StopNow();
    case SignalAction::kGiveUp:
      Say(decision.reason);
      return Finish(128 + signal);
    case SignalAction::kCheckpoint:
      return AskFor(ControlRequest::Kind::kCheckpoint, SignalName(signal));
    case SignalAction::kCheckpointAndStop:
      return AskFor(ControlRequest::Kind::kCheckpointAndStop, SignalName(signal));
    case SignalAction::kPreempt:
      return OnNotice({decision.reason, plan_.preempt.grace});
    case SignalAction::kForward:
      return ForwardUserSignal(signal);
    case SignalAction::kSuspend:
      if (group_) {
        group_->Broadcast(SIGSTOP);
      }
      return SuspendSelf();
    case SignalAction::kBroadcast:
      if (group_) {
        group_->Broadcast(signal);
      }
      return;
    case SignalAction::kNothing:
      return Say(decision.reason);
  }
}

/// Once more, or half a second later, the answer of the host is not waited for.
void App::LeaveJoin(int signal, const std::string& reason) {
  Say(reason);
  phase_ = RunPhase::kClosing;
  left_ = true;
  exit_code_ = 128 + signal;
  membership_->Leave(reason);
  leave_timer_.expires_after(kLeaveWait);
  leave_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      Finish(exit_code_);
    }
  });
}

void App::EndRun(int signal, const std::string& reason) {
  Say(reason);
  StopRun({.reason = StopReason::kSignal,
           .text = fmt::format("{} on {}", SignalName(signal), facts_.host_name),
           .signal = signal,
           .within_ms = plan_.preempt.grace ? plan_.preempt.grace->count() : 0});
}

/// Here at once and everywhere through the host. Between two epochs there are no workers, and the
/// host's answer is awaited.
void App::StopRun(const StopOrder& order) {
  report_->Stopping(order.text);
  membership_->RequestStop(order);
  if (phase_ == RunPhase::kWorking) {
    StopWorkers(order.reason, order.signal, order.within_ms);
  } else if (phase_ == RunPhase::kJoining) {
    phase_ = RunPhase::kClosing;
  }
}

void App::ForwardUserSignal(int signal) {
  if (group_->ForwardHandled(signal) == 0) {
    Say(fmt::format("{} is kept from the workers: none of them handles it", SignalName(signal)));
  }
}

void App::AskFor(ControlRequest::Kind kind, const std::string& who) {
  Ask({.kind = kind,
       .id = fmt::format("{}-{}-{}", who, facts_.node_id.substr(0, kShortId), ++requests_)});
}

/// To all nodes through the host; it comes back here as OnRequest() or OnStop().
void App::Ask(const ControlRequest& request) {
  if (request.kind != ControlRequest::Kind::kStop) {
    return membership_->RequestControl(request);
  }
  StopRun({.reason = StopReason::kCancelled,
           .text = fmt::format("request {}", request.id),
           .signal = SIGTERM});
}

void App::Decide(const std::string& what, const std::string& reason) {
  if (report_) {
    report_->Decided(what, reason);
  }
}

}  // namespace lr::launcher
