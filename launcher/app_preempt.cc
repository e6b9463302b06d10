/// The part of the App that learns that its machine is wanted back (spec 5.1).

#include <algorithm>
#include <chrono>
#include <csignal>

#include <fmt/format.h>

#include "launcher/app.h"
#include "launcher/plan/failure_label.h"

namespace lr::launcher {

using std::chrono::milliseconds;

void App::WatchForNotices() {
  ArmTimeLimit();
  if (plan_.preempt.watch.empty()) {
    return;
  }
  Variables environment = facts_.environment;
  environment["LR_NODE_ID"] = facts_.node_id;  // what is left of it is swept with the workers
  auto watch = PreemptWatch::Start(loop_,
                                   plan_.preempt.watch,
                                   std::move(environment),
                                   {.notice = [this](const Notice& notice) { OnNotice(notice); },
                                    .blind =
                                        [this](const std::string& why) {
                                          if (phase_ == RunPhase::kWorking) {
                                            Say("warning: " + why);
                                          }
                                        }});
  if (watch.ok()) {
    watch_ = std::move(watch).value();
  } else {
    Say(fmt::format("warning: pre-emption notices are not seen: {}", watch.status().message()));
  }
}

void App::ArmTimeLimit() {
  const auto left = JobTimeLeft();
  if (!left) {
    return;
  }
  limit_timer_.expires_after(LastSaveIn(*left, Estimates()));
  limit_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      OnNotice({"the time limit of the job", JobTimeLeft()});
    }
  });
}

std::optional<milliseconds> App::JobTimeLeft() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto since_start =
      std::chrono::duration_cast<milliseconds>(now - std::chrono::nanoseconds(started_unix_ns_));
  return TimeLeft(
      plan_.preempt, since_start, std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

/// Once is enough: everything later finds the run stopping.
void App::OnNotice(const Notice& notice) {
  if (phase_ != RunPhase::kWorking) {
    return;
  }
  const std::optional<milliseconds> within = notice.within ? notice.within : plan_.preempt.grace;
  std::string text = notice.text;
  int signal = SIGTERM;
  if (within) {
    const TimeCheck check = CheckTime(Estimates(), *within);
    text = fmt::format("{} ({})", text, check.reason);
    if (!check.fits && plan_.policy.when_late == WhenLate::kSkip) {
      signal = SIGKILL;  // the last complete checkpoint stays what it is
    }
  }
  Say(text);
  Decide("preempted", text);
  StopRun({.reason = StopReason::kPreempted,
           .text = fmt::format("{} on {}", notice.text, facts_.host_name),
           .signal = signal,
           .within_ms = within ? std::max<int64_t>(1, within->count()) : 0});
}

/// C-6: all ranks get the signal at once; rank 0's node looks for the marker.
void App::AskForeign(const ControlRequest& request) {
  const ForeignCheckpoints& foreign = plan_.foreign_checkpoints;
  const int first_rank = OwnNode(*assignment_, facts_.node_id).first_rank;
  SaveNews news{.rank = first_rank, .request = request.number};
  if (foreign.signal == 0) {
    news.error = "the program is not lr-train, and no --ckpt-signal says how to ask it";
    return OnSaved(news);
  }
  if (group_->ForwardHandled(foreign.signal) == 0) {
    news.error = fmt::format("no worker on {} handles {}, which would kill it",
                             facts_.host_name,
                             SignalName(foreign.signal));
    return OnSaved(news);
  }
  if (first_rank == 0 && (!foreign.glob.empty() || !foreign.done_file.empty())) {
    marker_ = MarkerWatch::Start(loop_, foreign, [this, news](const std::string& path) mutable {
      news.directory = path;
      OnSaved(news);
    });
  }
}

SaveEstimates App::Estimates() const {
  SaveEstimates slowest;
  if (service_) {
    for (const auto& [rank, progress] : service_->progress()) {
      slowest.step_s = std::max(slowest.step_s, progress.estimates.step_s);
      slowest.save_s = std::max(slowest.save_s, progress.estimates.save_s);
    }
  }
  return slowest;
}

}  // namespace lr::launcher
