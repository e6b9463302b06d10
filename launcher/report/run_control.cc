#include "launcher/report/run_control.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <grpcpp/grpcpp.h>

#include "proto/lr/v1/run.grpc.pb.h"

namespace lr::launcher {

namespace {

constexpr int kLargestMessage = 64 << 10;

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

class ControlImpl final : public v1::RunControl::CallbackService {
 public:
  ControlImpl(boost::asio::io_context& loop, std::string socket_path, RunControl::Handlers handlers)
      : loop_(loop), socket_path_(std::move(socket_path)), handlers_(std::move(handlers)) {}

  lr::Status Serve(const std::shared_ptr<ControlImpl>& self) {
    self_ = self;
    unlink(socket_path_.c_str());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_path_, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(kLargestMessage);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (!server_) {
      return Unavailable("cannot serve lr-ctl on '{}'", socket_path_);
    }
    chmod(socket_path_.c_str(), 0600);
    return {};
  }

  void Shutdown() {
    {
      const std::lock_guard lock(mutex_);
      for (const std::shared_ptr<Call>& call : open_) {
        call->Finish({grpc::StatusCode::UNAVAILABLE, "the run has ended"});
      }
      open_.clear();
    }
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    unlink(socket_path_.c_str());
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
        worker.set_phase(state.phase);
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

  grpc::ServerUnaryReactor* Checkpoint(grpc::CallbackServerContext* context,
                                       const v1::RunCheckpointRequest* request,
                                       v1::RunCheckpointReply* reply) override {
    const bool stop = request->stop();
    const bool wait = request->wait();
    return Answer(context, [=](ControlImpl& self, const std::shared_ptr<Call>& call) {
      self.handlers_.checkpoint(stop, wait, [&self, call, reply](const CheckpointResult& result) {
        if (call->finished()) {
          return;  // the caller hung up: the reply is gone
        }
        reply->set_state(result.state);
        reply->set_step(result.step);
        reply->set_directory(result.directory);
        reply->set_reason(result.reason);
        self.End(call);
      });
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

  /// Posts the handler to the loop; the call stays open until End() or the end of the run.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Handler handler) {
    auto call = std::make_shared<Call>(context->DefaultReactor());
    {
      const std::lock_guard lock(mutex_);
      open_.insert(call);
    }
    boost::asio::post(loop_, [self = self_, call, handler = std::move(handler)] {
      const std::shared_ptr<ControlImpl> alive = self.lock();
      if (alive && !call->finished()) {
        handler(*alive, call);
      }
    });
    return context->DefaultReactor();
  }

  void End(const std::shared_ptr<Call>& call) {
    {
      const std::lock_guard lock(mutex_);
      open_.erase(call);
    }
    call->Finish(grpc::Status::OK);
  }

  boost::asio::io_context& loop_;
  const std::string socket_path_;
  const RunControl::Handlers handlers_;
  std::weak_ptr<ControlImpl> self_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::set<std::shared_ptr<Call>> open_;  // guarded by mutex_: added by gRPC's threads
};

class OwnedControl final : public RunControl {
 public:
  explicit OwnedControl(std::shared_ptr<ControlImpl> impl) : impl_(std::move(impl)) {}

  ~OwnedControl() override { impl_->Shutdown(); }

 private:
  std::shared_ptr<ControlImpl> impl_;
};

}  // namespace

Result<std::unique_ptr<RunControl>> RunControl::Start(boost::asio::io_context& loop,
                                                      const std::string& socket_path,
                                                      Handlers handlers) {
  auto impl = std::make_shared<ControlImpl>(loop, socket_path, std::move(handlers));
  LR_TRY(impl->Serve(impl));
  return std::unique_ptr<RunControl>(std::make_unique<OwnedControl>(std::move(impl)));
}

}  // namespace lr::launcher
