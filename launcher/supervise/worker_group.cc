#include "launcher/supervise/worker_group.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <set>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/plan/stop_plan.h"

namespace lr::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSweepPause{10};
constexpr std::chrono::seconds kSweepLimit{
    30};  // a process stuck in the kernel is not waited for longer (S-7)
constexpr std::chrono::milliseconds kReapPause{100};

}  // namespace

class WorkerGroup::State : public std::enable_shared_from_this<WorkerGroup::State> {
 public:
  State(boost::asio::io_context& loop,
        OutputSinks sinks,
        Sweeper& sweeper,
        Options options,
        Events events)
      : loop_(loop),
        sinks_(sinks),
        sweeper_(sweeper),
        options_(std::move(options)),
        events_(std::move(events)),
        stop_timer_(loop),
        sweep_timer_(loop),
        reap_timer_(loop),
        children_(loop, SIGCHLD) {}

  void Start(std::vector<WorkerSpec> specs) {
    AwaitChildren();
    for (WorkerSpec& spec : specs) {
      Member& member = members_.emplace_back();
      member.worker =
          std::make_unique<WorkerProcess>(loop_,
                                          sinks_,
                                          kernel_,
                                          std::move(spec),
                                          [weak = weak_from_this()](const WorkerEnding& ending) {
                                            if (const auto self = weak.lock()) {
                                              self->OnEnded(ending);
                                            }
                                          });
    }
    for (Member& member : members_) {
      member.worker->Start();
      if (member.worker->running()) {
        sweeper_.Watch(member.worker->pid(), member.worker->start_time());
      }
    }
  }

  void Stop(StopReason reason, int signal, std::chrono::milliseconds grace) {
    if (stop_) {
      return;
    }
    stop_ = StopState{.reason = reason, .signal = signal, .grace = grace, .running = {}};
    stop_started_ = Clock::now();
    ActOnStop();
  }

  void StopNow() {
    if (!stop_) {
      Stop(StopReason::kSignal, SIGKILL, std::chrono::milliseconds(0));
    }
    stop_->now = true;
    ActOnStop();
  }

  int ForwardHandled(int signal) {
    int forwarded = 0;
    for (Member& member : members_) {
      if (member.worker->running() && HandlesSignal(member.worker->pid(), signal)) {
        kill(member.worker->pid(), signal);
        ++forwarded;
      }
    }
    return forwarded;
  }

  void Broadcast(int signal) {
    for (Member& member : members_) {
      member.worker->Signal(signal, false);
    }
  }

  int running() const {
    return static_cast<int>(std::ranges::count_if(
        members_, [](const Member& member) { return member.worker->running(); }));
  }

  std::vector<RunningWorker> Running() const {
    std::vector<RunningWorker> workers;
    for (const Member& member : members_) {
      if (member.worker->running()) {
        const WorkerSpec& spec = member.worker->spec();
        workers.push_back({spec.rank, spec.local_rank, member.worker->pid()});
      }
    }
    return workers;
  }

 private:
  struct Member {
    std::unique_ptr<WorkerProcess> worker;
    bool signalled = false;
    bool killed = false;
  };

  void OnEnded(const WorkerEnding& ending) {
    ++ended_;
    events_.ended(ending);
    if (ended_ == members_.size()) {
      stop_timer_.cancel();
      sweep_started_ = Clock::now();
      Sweep();
    } else if (stop_) {
      ActOnStop();
    }
  }

  /// Asks the pure plan what to do now, does it, and comes back when it said.
  void ActOnStop() {
    StopState& state = *stop_;
    state.elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - stop_started_);
    state.running.clear();
    for (const Member& member : members_) {
      if (member.worker->running()) {
        const WorkerSpec& spec = member.worker->spec();
        state.running.push_back({.local_rank = spec.local_rank,
                                 .serves_store = spec.rank == 0,
                                 .signalled = member.signalled,
                                 .killed = member.killed});
      }
    }
    const StopActions actions = DecideStop(state);
    for (const StopSignal& order : actions.signals) {
      Obey(order);
    }
    stop_timer_.cancel();
    if (actions.look_again_at) {
      stop_timer_.expires_at(stop_started_ + *actions.look_again_at);
      stop_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (!error && self) {
          self->ActOnStop();
        }
      });
    }
  }

  void Obey(const StopSignal& order) {
    const auto member = std::ranges::find_if(members_, [&](const Member& candidate) {
      return candidate.worker->spec().local_rank == order.local_rank;
    });
    member->signalled = true;
    member->killed = member->killed || order.signal == SIGKILL;
    member->worker->Signal(order.signal, true);
    if (order.signal != SIGKILL) {
      member->worker->Signal(SIGCONT, true);  // a stopped worker must be able to act on it
    } else {
      sinks_.console.Say(fmt::format(
          "lr-launch: rank {} is killed: {}\n", member->worker->spec().rank, order.reason));
    }
  }

  void Sweep() {
    RunMembership membership{
        .root = getpid(), .sessions = {}, .marked = {}, .never = sweeper_.pids()};
    membership.never.insert(getpid());
    for (const Member& member : members_) {
      if (member.worker->pid() > 0) {
        membership.sessions[member.worker->pid()] = member.worker->start_time();
      }
    }
    const std::vector<ProcessInfo> found = SweepOnce(membership, options_.marker);
    ReapOrphans({});
    if (found.empty() || Clock::now() - sweep_started_ > kSweepLimit) {
      children_.cancel();
      events_.gone(found);
      return;
    }
    sweep_timer_.expires_after(kSweepPause);
    sweep_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) {
        self->Sweep();
      }
    });
  }

  /// Adopted orphans are reaped soon after they end, at most every 100 ms; workers are reaped
  /// through their pidfd.
  void AwaitChildren() {
    children_.async_wait([weak = weak_from_this()](const boost::system::error_code& error, int) {
      const auto self = weak.lock();
      if (error || !self) {
        return;
      }
      self->reap_timer_.expires_after(kReapPause);
      self->reap_timer_.async_wait([weak](const boost::system::error_code& timer_error) {
        const auto again = weak.lock();
        if (!timer_error && again) {
          again->Reap();
          again->AwaitChildren();
        }
      });
    });
  }

  void Reap() {
    std::set<pid_t> keep;
    for (const Member& member : members_) {
      if (member.worker->running()) {
        keep.insert(member.worker->pid());
      }
    }
    ReapOrphans(keep);
  }

  boost::asio::io_context& loop_;
  OutputSinks sinks_;
  Sweeper& sweeper_;
  Options options_;
  Events events_;
  KernelEvidence kernel_;
  std::vector<Member> members_;
  size_t ended_ = 0;
  std::optional<StopState> stop_;
  Clock::time_point stop_started_;
  Clock::time_point sweep_started_;
  boost::asio::steady_timer stop_timer_;
  boost::asio::steady_timer sweep_timer_;
  boost::asio::steady_timer reap_timer_;
  boost::asio::signal_set children_;
};

WorkerGroup::WorkerGroup(boost::asio::io_context& loop,
                         OutputSinks sinks,
                         Sweeper& sweeper,
                         Options options,
                         Events events)
    : state_(std::make_shared<State>(loop, sinks, sweeper, std::move(options), std::move(events))) {
}

WorkerGroup::~WorkerGroup() = default;

void WorkerGroup::Start(std::vector<WorkerSpec> specs) {
  state_->Start(std::move(specs));
}

void WorkerGroup::Stop(StopReason reason, int signal, std::chrono::milliseconds grace) {
  state_->Stop(reason, signal, grace);
}

void WorkerGroup::StopNow() {
  state_->StopNow();
}

int WorkerGroup::ForwardHandled(int signal) {
  return state_->ForwardHandled(signal);
}

void WorkerGroup::Broadcast(int signal) {
  state_->Broadcast(signal);
}

int WorkerGroup::running() const {
  return state_->running();
}

std::vector<RunningWorker> WorkerGroup::Running() const {
  return state_->Running();
}

}  // namespace lr::launcher
