/// NodeAgent: the host is gone, or this node is cut off from it.

#include <utility>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"
#include "launcher/plan/first_failure.h"
#include "launcher/rendezvous/node_agent.h"

namespace lr::launcher {
namespace {

constexpr std::chrono::milliseconds kRejoin{200};

}  // namespace

void NodeAgent::OnLost(const std::string& why) {
  if (phase_ == Phase::kOver) {
    return;
  }
  if (has_run_) {
    return HostLost(why);
  }
  phase_ = Phase::kJoining;
  last_waiting_ = fmt::format("the host of the rendezvous is gone ({}); looking for it again", why);
  SayWaiting(last_waiting_);
  retry_timer_.expires_after(kRejoin);
  retry_timer_.async_wait(
      [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
        if (!error && !alive.expired() && phase_ == Phase::kJoining) {
          OpenLink();
        }
      });
}

/// Without the host this node's epoch is over: stops the workers if there are any (fence), then
/// looks for the host once more. Somebody else may have gone on without this node.
void NodeAgent::HostLost(const std::string& why) {
  if (looking_again_) {
    return FinishWithoutHost("");
  }
  if (!host_lost_) {
    host_lost_ = fmt::format("the host of the rendezvous at {} is lost: {}", endpoint_.host, why);
  }
  if (stopped_ || phase_ == Phase::kJoining || phase_ == Phase::kAssigned) {
    return LookAgain();
  }
  if (std::exchange(phase_, Phase::kStopping) == Phase::kRunning) {
    events_.stop({StopReason::kHostLost, *host_lost_, 15});
  }
}

/// Not from inside an event of the link that is replaced.
void NodeAgent::LookAgain() {
  phase_ = Phase::kJoining;
  retry_timer_.expires_after(kRejoin);
  retry_timer_.async_wait(
      [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
        if (!error && !alive.expired() && phase_ == Phase::kJoining) {
          looking_again_ = true;
          OpenLink();
        }
      });
}

void NodeAgent::BackInTheRun() {
  looking_again_ = false;
  RunOutcome ended;
  ended.exit_code = kExitRendezvousTimeout;
  ended.reason = *std::exchange(host_lost_, std::nullopt);
  ended.next = "this node is back in the run";
  events_.reforming(ended);
}

void NodeAgent::FinishWithoutHost(const std::string& more) {
  FirstFailure failure = ChooseFirstFailure(endings_);
  Finish({false,
          kExitRendezvousTimeout,
          *host_lost_ + more,
          std::move(failure.root_cause),
          std::move(failure.failures),
          ""});
}

}  // namespace lr::launcher
