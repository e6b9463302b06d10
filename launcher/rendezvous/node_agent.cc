#include "launcher/rendezvous/node_agent.h"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "common/contract/exit_codes.h"
#include "launcher/rendezvous/endpoint_choice.h"

namespace lr::launcher {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kWaitingLine{30};
constexpr std::chrono::seconds kHostSpeaksFirst{
    1};  ///< its time-out names everybody who is missing
constexpr std::chrono::seconds kProbeLimit{3};

int64_t UnixNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

NodeAgent::NodeAgent(boost::asio::io_context& loop,
                     NodeIdentity identity,
                     RendezvousEndpoint endpoint,
                     Events events,
                     std::shared_ptr<const EndpointFacts> facts)
    : loop_(loop),
      identity_(std::move(identity)),
      endpoint_(std::move(endpoint)),
      events_(std::move(events)),
      facts_(std::move(facts)),
      join_timer_(loop),
      beat_timer_(loop),
      retry_timer_(loop) {}

void NodeAgent::Join(LinkMaker make_link) {
  make_link_ = std::move(make_link);
  if (!one_node()) {
    live_socket_ = LiveSocket::Open(loop_);
    StartJoinClock();
    StartBeating();
  }
  OpenLink();
}

void NodeAgent::OpenLink() {
  HostLink::Events events;
  events.message = [this](const HostMessage& message) {
    heard_ = steady_clock::now();
    if (phase_ != Phase::kOver) {
      if (looking_again_ && !std::holds_alternative<Refused>(message)) {
        BackInTheRun();
      }
      std::visit([this](const auto& body) { On(body); }, message);
    }
  };
  events.lost = [this](const std::string& why) { OnLost(why); };
  events.searching = [this](const std::string& tried, bool say) {
    last_waiting_ = tried;
    if (say) {
      SayWaiting(tried);
    }
  };
  heard_ = steady_clock::now();
  link_ = make_link_(std::move(events), has_run_);
  Hello hello{.identity = identity_};
  hello.live_port = live_socket_ ? live_socket_->port() : 0;
  link_->Send(std::move(hello));
}

// ---- what the host says

void NodeAgent::On(const Refused& refused) {
  if (looking_again_) {
    return FinishWithoutHost("; " + refused.text);
  }
  GiveUp(refused.exit_code, refused.text);
}

void NodeAgent::On(const Waiting& waiting) {
  if (phase_ != Phase::kJoining && phase_ != Phase::kAssigned) {
    return;
  }
  phase_ = Phase::kJoining;
  holder_.reset();
  last_waiting_ = waiting.text;
  if (waiting.spare) {
    has_run_ = true;
    join_timer_.cancel();
    said_waiting_.reset();
  }
  SayWaiting(waiting.text);
}

void NodeAgent::On(const Reserve& reserve) {
  std::string notice;
  holder_.reset();  // of the epoch before
  Result<std::unique_ptr<PortHolder>> holder =
      HoldWorkerPort(endpoint_.worker_port, endpoint_.worker_port_explicit, notice);
  if (!holder.ok()) {
    link_->Send(Reserved{reserve.epoch,
                         "",
                         0,
                         fmt::format("the workers' port on {}: {}; stop that process or choose "
                                     "another port",
                                     identity_.host_name,
                                     holder.status().message())});
    return;
  }
  if (!notice.empty()) {
    spdlog::warn("{}", notice);
  }
  holder_ = *std::move(holder);
  const AddressFacts facts{one_node(),
                           endpoint_.host,
                           facts_->resolved,
                           facts_->own,
                           endpoint_.local_addrs,
                           reserve.seen_from};
  const AddressChoice choice = ChooseWorkerAddress(facts);
  spdlog::debug("workers meet at {}: {}", HostPort(choice.address, holder_->port()), choice.reason);
  link_->Send(Reserved{
      reserve.epoch, choice.address, holder_->port(), "", AlternativeAddresses(facts, choice)});
}

void NodeAgent::On(const Assign& assign) {
  assignment_ = assign.assignment;
  phase_ = Phase::kAssigned;
  const int64_t epoch = assignment_.epoch;
  if (assignment_.nodes.front().node_id == identity_.node_id) {
    link_->Send(Ack{epoch, "", assignment_.master_addr});
    return;
  }
  probe_ = std::make_unique<ReachProbe>(
      loop_,
      assignment_.master_addr,
      assignment_.master_port,
      kProbeLimit,
      [this, epoch, address = assignment_.master_addr](const ReachAnswer& answer) {
        link_->Send(Ack{epoch, answer.problem, address});
      });
}

void NodeAgent::On(const Go& go) {
  if (phase_ != Phase::kAssigned || go.epoch != assignment_.epoch) {
    return;
  }
  phase_ = Phase::kRunning;
  has_run_ = true;
  stopped_ = false;
  endings_.clear();
  progress_ = {};
  progress_told_ = true;
  boards_.clear();
  join_timer_.cancel();
  const std::weak_ptr<bool> alive(alive_);
  events_.assigned(assignment_);
  if (!alive.expired()) {
    events_.go(go.epoch);
  }
}

void NodeAgent::On(const Stop& stop) {
  if (phase_ == Phase::kRunning && stop.epoch == assignment_.epoch) {
    phase_ = Phase::kStopping;
    if (!stopped_) {
      events_.stop(stop.order);
    }
  }
}

void NodeAgent::On(const Control& control) {
  if (phase_ == Phase::kRunning) {
    events_.request(control.request);
  }
}

void NodeAgent::On(const BeatEcho& echo) {
  clock_.Sample(echo.sent_unix_ns, echo.host_unix_ns, UnixNanoseconds());
}

void NodeAgent::On(const Reforming& reforming) {
  if (phase_ == Phase::kStopping || phase_ == Phase::kRunning) {
    phase_ = Phase::kJoining;
    events_.reforming(reforming.ended);
  }
}

void NodeAgent::On(const Watched& watched) {
  const bool working = phase_ == Phase::kRunning || phase_ == Phase::kStopping;
  if (working && watched.epoch == assignment_.epoch && events_.watched) {
    events_.watched(watched.report);
  }
}

void NodeAgent::On(const Closed& closed) {
  Finish(closed.outcome);
}

// ---- what this node's supervision says

void NodeAgent::ReportProgress(int64_t epoch, const TrainingProgress& now) {
  const bool news = now.step > progress_.step || now.checkpoint_step > progress_.checkpoint_step ||
                    (!now.output_dir.empty() && now.output_dir != progress_.output_dir);
  if (epoch != assignment_.epoch || !news) {
    return;
  }
  progress_ = {std::max(progress_.step, now.step),
               std::max(progress_.checkpoint_step, now.checkpoint_step),
               now.output_dir.empty() ? progress_.output_dir : now.output_dir,
               now.estimates};
  progress_told_ = false;
}

/// With the beats, and before an ending that may be judged by it.
void NodeAgent::TellProgress() {
  if (!std::exchange(progress_told_, true)) {
    link_->Send(Progress{assignment_.epoch, progress_});
  }
}

void NodeAgent::ReportEnded(int64_t epoch, const WorkerEnding& ending) {
  endings_.push_back(ending);
  WorkerEnding on_host_clock = ending;
  on_host_clock.start_unix_ns = clock_.ToHost(ending.start_unix_ns);
  on_host_clock.end_unix_ns = clock_.ToHost(ending.end_unix_ns);
  if (link_ != nullptr && phase_ != Phase::kOver) {
    TellProgress();
    link_->Send(Ended{epoch, std::move(on_host_clock)});
  }
}

void NodeAgent::ReportStopped(int64_t epoch) {
  if (phase_ == Phase::kOver || std::exchange(stopped_, true)) {
    return;
  }
  if (host_lost_) {
    return LookAgain();
  }
  link_->Send(Stopped{epoch});
}

void NodeAgent::RequestStop(const StopOrder& order) {
  if (phase_ == Phase::kOver) {
    return;
  }
  if (host_lost_) {
    return;  // the stop order was given when the host was lost
  }
  link_->Send(StopRequest{order});
}

void NodeAgent::Leave(const std::string& reason) {
  if (std::exchange(phase_, Phase::kOver) != Phase::kOver) {
    link_->Send(Bye{reason});
  }
  join_timer_.cancel();
  beat_timer_.cancel();
  retry_timer_.cancel();
}

// ---- time

void NodeAgent::SayWaiting(const std::string& text) {
  const auto now = steady_clock::now();
  if (one_node() || (said_waiting_ && now < *said_waiting_ + kWaitingLine)) {
    return;
  }
  said_waiting_ = now;
  if (events_.waiting) {
    events_.waiting(text);
  }
}

std::string NodeAgent::JoinTimeoutText() const {
  std::string text = fmt::format("the rendezvous at {} timed out after {} s: {}",
                                 endpoint_.host,
                                 endpoint_.join_timeout.count(),
                                 last_waiting_.empty() ? "no answer" : last_waiting_);
  if (!facts_->resolved.empty() && std::ranges::all_of(facts_->resolved, IsLoopback)) {
    text += fmt::format(
        "; {} is {} here, this machine alone: nodes on other machines cannot meet there",
        endpoint_.host,
        facts_->resolved.front());
  }
  return text;
}

void NodeAgent::StartJoinClock() {
  join_timer_.expires_after(endpoint_.join_timeout + kHostSpeaksFirst);
  join_timer_.async_wait(
      [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
        if (error || alive.expired() || phase_ == Phase::kRunning || phase_ == Phase::kStopping ||
            phase_ == Phase::kOver) {
          return;
        }
        const std::string text = JoinTimeoutText();
        link_->Send(Bye{"its join timeout passed"});
        GiveUp(kExitRendezvousTimeout, text);
      });
}

void NodeAgent::StartBeating() {
  beat_timer_.expires_after(endpoint_.times.heartbeat);
  beat_timer_.async_wait(
      [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
        if (error || alive.expired() || phase_ == Phase::kOver) {
          return;
        }
        StartBeating();
        if (host_lost_) {
          return;
        }
        if (steady_clock::now() - heard_ < endpoint_.times.host_lost) {
          link_->Send(Beat{UnixNanoseconds()});
          TellProgress();
          TellBoards();
        } else if (has_run_) {
          HostLost(fmt::format("silent for more than {:.4g} s",
                               std::chrono::duration<double>(endpoint_.times.host_lost).count()));
        }
      });
}

// ---- last events

void NodeAgent::GiveUp(int exit_code, const std::string& text) {
  phase_ = Phase::kOver;
  join_timer_.cancel();
  beat_timer_.cancel();
  const auto refused = events_.refused;
  refused(exit_code, text);
}

void NodeAgent::Finish(const RunOutcome& outcome) {
  phase_ = Phase::kOver;
  join_timer_.cancel();
  beat_timer_.cancel();
  const auto closed = events_.closed;
  closed(outcome);
}

}  // namespace lr::launcher
