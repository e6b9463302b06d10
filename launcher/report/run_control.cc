#include "launcher/report/run_control.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <grpcpp/server_context.h>

#include "proto/lr/v1/run.grpc.pb.h"

#include "common/rpc/grpc_status.h"
#include "common/rpc/loop_gate.h"
#include "common/rpc/unix_server.h"

namespace lr::launcher {

namespace {

constexpr int kLargestMessage = 64 << 10;
constexpr int64_t kLongestWait = int64_t{7} * 24 * 3600 * 1000;
constexpr std::chrono::milliseconds kEndLimit{200};

/// Finishes a call exactly once, whoever comes first: the answer or the end of the run.
class Call {
 public:
  explicit Call(grpc::ServerUnaryReactor* reactor) : reactor_(reactor) {}

  void Finish(const grpc::Status& status) {
    if (!finished_.exchange(true)) {
      reactor_->Finish(status);
    }
  }

  bool finished() const { return finished_.load(); }

 private:
  grpc::ServerUnaryReactor* reactor_;
  std::atomic<bool> finished_{false};
};

/// The states of one request, in order. The loop sends and ends; gRPC's threads only post. Keeps
/// itself alive until gRPC's last call.
class ResultStream final : public grpc::ServerWriteReactor<v1::RunCheckpointReply>,
                           public std::enable_shared_from_this<ResultStream> {
 public:
  explicit ResultStream(std::shared_ptr<rpc::LoopGate> gate) : gate_(std::move(gate)) {}

  void Begin() { self_ = shared_from_this(); }

  void Send(v1::RunCheckpointReply reply, bool last) {
    outbox_.push_back(std::move(reply));
    if (last) {
      end_ = end_.value_or(grpc::Status::OK);
    }
    GoOn();
  }

  bool finished() const { return finished_; }

  void OnWriteDone(bool ok) override {
    gate_->Post([self = shared_from_this(), ok] {
      self->writing_ = false;
      self->outbox_.pop_front();
      if (!ok) {  // nobody listens any more
        self->outbox_.clear();
        self->end_ = self->end_.value_or(grpc::Status::CANCELLED);
      }
      self->GoOn();
    });
  }

  void OnDone() override { self_.reset(); }

  /// Without waiting for what was sent.
  void Abandon(const grpc::Status& status) {
    if (!std::exchange(finished_, true)) {
      Finish(status);
    }
  }

 private:
  void GoOn() {
    if (writing_ || finished_) {
      return;
    }
    if (outbox_.size() == 1 && end_ && end_->ok()) {  // one step: the loop may end right behind it
      finished_ = true;
      StartWriteAndFinish(&outbox_.front(), {}, *end_);
    } else if (!outbox_.empty()) {
      writing_ = true;
      StartWrite(&outbox_.front());
    } else if (end_) {
      Abandon(*end_);
    }
  }

  const std::shared_ptr<rpc::LoopGate> gate_;
  std::shared_ptr<ResultStream> self_;
  std::deque<v1::RunCheckpointReply> outbox_;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
};

v1::RunCheckpointReply ToReply(const CheckpointResult& result) {
  v1::RunCheckpointReply reply;
  reply.set_state(std::string(RequestStateName(result.state)));
  reply.set_step(result.step);
  reply.set_directory(result.directory);
  reply.set_reason(result.reason);
  reply.set_id(result.id);
  reply.set_stop(result.stop);
  reply.set_bytes(result.bytes);
  reply.set_agree_s(result.agree_s);
  reply.set_write_s(result.write_s);
  reply.set_publish_s(result.publish_s);
  reply.mutable_slowest()->Assign(result.slowest.begin(), result.slowest.end());
  return reply;
}

class ControlImpl final : public RunControl, public v1::RunControl::CallbackService {
 public:
  ControlImpl(boost::asio::io_context& loop, RunControl::Handlers handlers)
      : gate_(std::make_shared<rpc::LoopGate>(loop)), handlers_(std::move(handlers)) {}

  ~ControlImpl() override {
    gate_->Close();
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      for (const std::shared_ptr<Call>& call : open_) {
        call->Finish({grpc::StatusCode::UNAVAILABLE, "the run has ended"});
      }
      open_.clear();
    }
    for (const std::shared_ptr<ResultStream>& stream : streams_) {
      stream->Abandon({grpc::StatusCode::UNAVAILABLE, "the run has ended"});
    }
    if (server_) {
      server_->Shutdown(kEndLimit);
    }
  }

  lr::Status Serve(boost::asio::io_context& loop, const std::string& socket_path) {
    LR_ASSIGN(server_, rpc::UnixServer::Listen(loop, socket_path, *this, kLargestMessage));
    return {};
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::RunStatusRequest* /*request*/,
                                   v1::RunStatusReply* reply) override {
    return Answer(context, [reply](ControlImpl& self, const std::shared_ptr<Call>& call) {
      reply->set_record_json(
          self.handlers_.record().dump(-1, ' ', false, Json::error_handler_t::replace));
      for (const auto& [rank, state] : self.handlers_.workers()) {
        v1::WorkerStatus& worker = *reply->add_workers();
        worker.set_rank(rank);
        worker.set_pid(state.pid);
        worker.set_phase(std::string(PhaseName(state.phase)));
        worker.set_phase_ms(state.in_phase.count());
        worker.set_step(state.step);
        worker.set_total_steps(state.total_steps);
        worker.set_loss(state.loss);
        worker.set_samples_per_s(state.samples_per_s);
        worker.set_checkpoint_step(state.checkpoint_step);
        worker.set_checkpoint_dir(state.checkpoint_dir);
      }
      self.End(call);
    });
  }

  grpc::ServerWriteReactor<v1::RunCheckpointReply>* Checkpoint(
      grpc::CallbackServerContext* /*context*/, const v1::RunCheckpointRequest* request) override {
    const CheckpointAsk ask{
        .id = request->id(),
        .stop = request->stop(),
        .wait = request->wait(),
        .only_when_started = request->only_when_started(),
        .within_ms = std::clamp<int64_t>(request->within_ms(), 0, kLongestWait)};
    auto stream = std::make_shared<ResultStream>(gate_);
    stream->Begin();
    const std::lock_guard lock(mutex_);
    if (closing_) {
      stream->Abandon({grpc::StatusCode::UNAVAILABLE, "the run has ended"});
      return stream.get();
    }
    gate_->Post([this, ask, stream] {
      std::erase_if(streams_, [](const auto& other) { return other->finished(); });
      streams_.insert(stream);
      handlers_.checkpoint(ask, [stream](const CheckpointResult& result, bool last) {
        stream->Send(ToReply(result), last);
      });
    });
    return stream.get();
  }

  grpc::ServerUnaryReactor* Stacks(grpc::CallbackServerContext* context,
                                   const v1::RunStacksRequest* request,
                                   v1::RunStacksReply* reply) override {
    ControlRequest ask{.kind = ControlRequest::Kind::kStacks, .id = ""};
    if (request->has_rank()) {
      ask.rank = request->rank();
    }
    return Watch(context, std::move(ask), [reply](const WatchReport& report) {
      reply->set_note(report.text);
      for (const RankStack& stack : report.stacks) {
        v1::StackOfRank& one = *reply->add_stacks();
        one.set_rank(stack.rank);
        one.set_text(stack.text);
      }
    });
  }

  grpc::ServerUnaryReactor* Stragglers(grpc::CallbackServerContext* context,
                                       const v1::RunStragglersRequest* /*request*/,
                                       v1::RunStragglersReply* reply) override {
    return Watch(context,
                 {.kind = ControlRequest::Kind::kStragglers, .id = ""},
                 [reply](const WatchReport& report) {
                   reply->set_text(report.text);
                   for (const int rank : report.ranks) {
                     reply->add_ranks(rank);
                   }
                 });
  }

  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::RunCancelRequest* request,
                                   v1::RunCancelReply* /*reply*/) override {
    const std::string reason = request->reason();
    return Answer(context, [reason](ControlImpl& self, const std::shared_ptr<Call>& call) {
      self.handlers_.cancel(reason);
      self.End(call);
    });
  }

 private:
  using Handler = std::function<void(ControlImpl&, const std::shared_ptr<Call>&)>;

  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  ControlRequest request,
                                  std::function<void(const WatchReport&)> fill) {
    return Answer(context, [=](ControlImpl& self, const std::shared_ptr<Call>& call) {
      self.handlers_.watch(request, [&self, call, fill](const Result<WatchReport>& report) {
        if (call->finished()) {
          return;  // the caller hung up: the reply is gone
        }
        if (report.ok()) {
          fill(*report);
        }
        self.End(call, rpc::ToGrpc(report.status()));
      });
    });
  }

  /// Posts the handler to the loop; the call stays open until End() or the end of the run.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Handler handler) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();  // made anew by every call of it
    auto call = std::make_shared<Call>(reactor);
    const std::lock_guard lock(mutex_);
    if (closing_) {
      call->Finish({grpc::StatusCode::UNAVAILABLE, "the run has ended"});
    } else {
      open_.insert(call);
      gate_->Post([this, call, handler = std::move(handler)] { handler(*this, call); });
    }
    return reactor;
  }

  void End(const std::shared_ptr<Call>& call, const grpc::Status& status = grpc::Status::OK) {
    {
      const std::lock_guard lock(mutex_);
      open_.erase(call);
    }
    call->Finish(status);
  }

  const std::shared_ptr<rpc::LoopGate> gate_;
  const RunControl::Handlers handlers_;

  std::mutex mutex_;  // before the gate's; guards the next two
  bool closing_ = false;
  std::set<std::shared_ptr<Call>> open_;

  std::set<std::shared_ptr<ResultStream>> streams_;  // on the loop

  std::unique_ptr<rpc::UnixServer> server_;
};

}  // namespace

Result<std::unique_ptr<RunControl>> RunControl::Start(boost::asio::io_context& loop,
                                                      const std::string& socket_path,
                                                      Handlers handlers) {
  auto control = std::make_unique<ControlImpl>(loop, std::move(handlers));
  LR_TRY(control->Serve(loop, socket_path));
  return std::unique_ptr<RunControl>(std::move(control));
}

}  // namespace lr::launcher
