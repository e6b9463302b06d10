#pragma once
/// A rendezvous of one process for tests of the supervision: forms at once (or when told), ends the
/// run by the rules of one node, and records what it was told. Everything on the event loop.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "launcher/plan/first_failure.h"
#include "launcher/rendezvous/membership.h"

namespace lr::launcher {

/// What the fake saw; outlives it.
struct MembershipLog {
  NodeIdentity identity;
  RendezvousEndpoint endpoint;
  std::vector<std::string> calls;
  std::vector<WorkerEnding> endings;
  std::vector<WorkerBoard> boards;
  std::vector<RankStack> stacks;
  Membership::Events events;  ///< to play the host
};

class FakeMembership : public Membership {
 public:
  struct Script {
    bool forms = true;    ///< assigned and go follow by themselves
    int other_nodes = 0;  ///< pretended nodes with one worker each, after this one
    bool closes = true;   ///< closed follows ReportStopped
    int restarts = 0;     ///< failed epochs that are formed again first
    std::optional<RunOutcome> outcome = {};  ///< instead of what the endings say
  };

  FakeMembership(boost::asio::io_context& loop,
                 NodeIdentity identity,
                 const RendezvousEndpoint& endpoint,
                 Events events,
                 Script script,
                 MembershipLog& log)
      : loop_(loop), log_(log), script_(script) {
    log_.identity = std::move(identity);
    log_.endpoint = endpoint;
    log_.events = std::move(events);
    if (script_.forms) {
      boost::asio::post(loop_, [this] { Form(); });
    }
  }

  void Form() {
    log_.events.assigned(MakeAssignment());
    log_.events.go(epoch_);
  }

  Assignment MakeAssignment() const {
    const NodeIdentity& own = log_.identity;
    Assignment assignment;
    assignment.run_id = own.run_id.empty() ? "run" : own.run_id;
    assignment.epoch = epoch_;
    assignment.attempt = static_cast<int>(epoch_) - 1;
    assignment.restart_count = assignment.attempt;
    assignment.master_addr = "127.0.0.1";
    assignment.master_port = 29555;
    assignment.nodes.push_back({.node_id = own.node_id,
                                .host_name = own.host_name,
                                .address = "127.0.0.1",
                                .node_rank = 0,
                                .local_size = own.local_size,
                                .first_rank = 0});
    for (int other = 1; other <= script_.other_nodes; ++other) {
      assignment.nodes.push_back({.node_id = std::to_string(other),
                                  .host_name = "other",
                                  .address = "127.0.0.1",
                                  .node_rank = other,
                                  .local_size = 1,
                                  .first_rank = own.local_size + other - 1});
    }
    assignment.world_size = own.local_size + script_.other_nodes;
    return assignment;
  }

  void ReportProgress(int64_t /*epoch*/, const TrainingProgress& now) override {
    log_.calls.push_back("progress " + std::to_string(now.step));
  }

  void ReportBoard(int64_t /*epoch*/, const WorkerBoard& board) override {
    log_.boards.push_back(board);
  }

  void ReportStacks(int64_t /*epoch*/,
                    const std::string& id,
                    std::vector<RankStack> stacks,
                    bool last) override {
    log_.calls.push_back((last ? "last stacks " : "stacks ") + id);
    log_.stacks.insert(log_.stacks.end(), stacks.begin(), stacks.end());
  }

  void ReportSave(int64_t /*epoch*/, const SaveNews& news) override {
    log_.calls.push_back("save of step " + std::to_string(news.step));
  }

  void ReportEnded(int64_t /*epoch*/, const WorkerEnding& ending) override {
    log_.calls.push_back("ended " + std::to_string(ending.rank));
    log_.endings.push_back(ending);
  }

  void ReportStopped(int64_t /*epoch*/) override {
    log_.calls.emplace_back("stopped");
    if (epoch_ <= script_.restarts && !stop_ && !Outcome().succeeded) {
      RunOutcome ended = Outcome();
      ended.next = "restart " + std::to_string(epoch_) + " in 0.0 s";
      ++epoch_;
      log_.endings.clear();
      log_.events.reforming(ended);
      Form();
    } else if (script_.closes) {
      log_.events.closed(Outcome());
    }
  }

  void RequestStop(const StopOrder& order) override {
    log_.calls.push_back("stop " + order.text);
    stop_ = order;
  }

  void RequestControl(const ControlRequest& request) override {
    log_.calls.push_back(request.kind == ControlRequest::Kind::kCheckpoint ? "checkpoint"
                                                                           : "checkpoint and stop");
    log_.events.request(request);
  }

  void Leave(const std::string& reason) override { log_.calls.push_back("leave " + reason); }

 private:
  RunOutcome Outcome() const {
    const FirstFailure first = ChooseFirstFailure(log_.endings);
    if (script_.outcome) {
      return *script_.outcome;
    }
    RunOutcome outcome;
    outcome.root_cause = first.root_cause;
    outcome.failures = first.failures;
    outcome.reason = first.reason;
    if (first.root_cause) {
      outcome.exit_code = first.root_cause->job_exit_code();
    } else if (stop_) {
      outcome.exit_code = 128 + stop_->signal;
      outcome.reason = "stopped: " + stop_->text;
    } else {
      outcome.succeeded = true;
    }
    return outcome;
  }

  boost::asio::io_context& loop_;
  MembershipLog& log_;
  const Script script_;
  std::optional<StopOrder> stop_;
  int64_t epoch_ = 1;
};

}  // namespace lr::launcher
