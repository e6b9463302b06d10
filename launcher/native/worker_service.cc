// The server side of worker.proto. A reactor decodes and posts to the loop; the loop owns every
// session and is the only one that writes to or finishes a stream, so a reactor can only be gone
// after the loop let it go.
#include "launcher/native/worker_service.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <grpcpp/grpcpp.h>

#include "proto/lr/v1/worker.grpc.pb.h"

namespace lr::launcher {

namespace {

constexpr int kLargestMessage = 64 << 10;

const char* PhaseName(v1::WorkerPhase phase) {
  constexpr const char* kNames[] = {
      "init", "data", "forward", "backward", "reduce", "optimizer", "eval", "checkpoint", "idle"};
  const auto index = static_cast<size_t>(phase);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

v1::ControlKind KindOf(ControlRequest::Kind kind) {
  switch (kind) {
    case ControlRequest::Kind::kCheckpoint:
      return v1::CONTROL_KIND_CHECKPOINT;
    case ControlRequest::Kind::kCheckpointAndStop:
      return v1::CONTROL_KIND_CHECKPOINT_AND_STOP;
    case ControlRequest::Kind::kStop:
      return v1::CONTROL_KIND_STOP;
  }
  return v1::CONTROL_KIND_NONE;
}

/// What the streams tell the service; called on the loop.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnMessage(int64_t session, const v1::WorkerMessage& message) = 0;
  virtual void OnWritten(int64_t session, bool ok) = 0;
  virtual void OnEnd(int64_t session) = 0;
};

/// Runs handlers on the loop while the service lives.
class Poster {
 public:
  Poster(boost::asio::io_context& loop, std::weak_ptr<Listener> listener)
      : loop_(loop), listener_(std::move(listener)) {}

  template <typename Handler>
  void Post(Handler handler) const {
    boost::asio::post(loop_, [listener = listener_, handler = std::move(handler)] {
      if (const std::shared_ptr<Listener> alive = listener.lock()) {
        handler(*alive);
      }
    });
  }

 private:
  boost::asio::io_context& loop_;
  std::weak_ptr<Listener> listener_;
};

class Reactor final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::LauncherMessage> {
 public:
  Reactor(Poster poster, int64_t session) : poster_(std::move(poster)), session_(session) {}

  void Begin() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      poster_.Post([session = session_](Listener& to) { to.OnEnd(session); });
      return;
    }
    poster_.Post([session = session_, message = incoming_](Listener& to) {
      to.OnMessage(session, message);
    });
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    poster_.Post([session = session_, ok](Listener& to) { to.OnWritten(session, ok); });
  }

  void OnDone() override { delete this; }

  /// The message being written; set by the loop before StartWrite.
  v1::LauncherMessage outgoing;

 private:
  Poster poster_;
  int64_t session_;
  v1::WorkerMessage incoming_;
};

class ServiceImpl final : public WorkerService,
                          public Listener,
                          public v1::WorkerControl::CallbackService {
 public:
  ServiceImpl(boost::asio::io_context& loop, std::string socket_path, Events events)
      : loop_(loop), socket_path_(std::move(socket_path)), events_(std::move(events)) {}

  Status Serve(const std::shared_ptr<ServiceImpl>& self) {
    self_ = self;
    unlink(socket_path_.c_str());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_path_, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(kLargestMessage);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (!server_) {
      return Unavailable("cannot serve the workers on '{}'", socket_path_);
    }
    chmod(socket_path_.c_str(), 0600);
    return {};
  }

  void Shutdown() {
    for (auto& [id, session] : sessions_) {
      session.reactor->Finish(grpc::Status::OK);
    }
    sessions_.clear();
    if (server_) {
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    }
    unlink(socket_path_.c_str());
  }

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::LauncherMessage>* Attach(
      grpc::CallbackServerContext* /*context*/) override {
    const int64_t id = next_session_.fetch_add(1);
    const Poster poster(loop_, self_);
    auto* reactor = new Reactor(poster, id);
    // Posted before the first read starts, so the session is known before any of its messages.
    poster.Post([this, id, reactor](Listener& /*alive*/) { sessions_[id].reactor = reactor; });
    reactor->Begin();
    return reactor;
  }

  int Send(const ControlRequest& request) override {
    v1::LauncherMessage message;
    message.mutable_word()->set_kind(KindOf(request.kind));
    message.mutable_word()->set_id(request.id);
    int count = 0;
    for (auto& [id, session] : sessions_) {
      if (session.rank >= 0) {
        session.outbox.push_back(message);
        WriteNext(session);
        ++count;
      }
    }
    return count;
  }

  const std::map<int, WorkerProgress>& progress() const override { return progress_; }

  void OnMessage(int64_t id, const v1::WorkerMessage& message) override {
    const auto it = sessions_.find(id);
    if (it == sessions_.end()) {
      return;
    }
    Session& session = it->second;
    if (message.has_hello()) {
      session.rank = message.hello().rank();
      WorkerProgress& state = progress_[session.rank];
      state.rank = session.rank;
      state.pid = message.hello().pid();
      state.output_dir = message.hello().output_dir();
    } else if (session.rank < 0) {
      End(id);  // speaks before it said who it is
      return;
    } else {
      Apply(message, progress_[session.rank]);
    }
    if (events_.progress) {
      events_.progress(progress_[session.rank]);
    }
    if (message.has_goodbye()) {
      End(id);  // tells the worker that its last words were heard
    }
  }

  void OnWritten(int64_t id, bool ok) override {
    const auto it = sessions_.find(id);
    if (it == sessions_.end()) {
      return;
    }
    it->second.writing = false;
    if (ok) {
      WriteNext(it->second);
    }
  }

  void OnEnd(int64_t id) override {
    if (sessions_.count(id) > 0) {
      End(id);
    }
  }

 private:
  struct Session {
    Reactor* reactor = nullptr;
    int rank = -1;  ///< until its hello
    bool writing = false;
    std::deque<v1::LauncherMessage> outbox;
  };

  static void Apply(const v1::WorkerMessage& message, WorkerProgress& state) {
    if (message.has_step()) {
      state.phase = PhaseName(message.step().phase());
      state.step = message.step().step();
      state.total_steps = message.step().total_steps();
      state.loss = message.step().loss();
      state.samples_per_s = message.step().samples_per_s();
    } else if (message.has_checkpoint()) {
      state.checkpoint_error = message.checkpoint().error();
      if (message.checkpoint().error().empty()) {
        state.checkpoint_step = message.checkpoint().step();
        state.checkpoint_dir = message.checkpoint().directory();
      }
      ++state.checkpoint_reports;
    } else if (message.has_failure()) {
      state.failure = message.failure().what();
    } else if (message.has_goodbye()) {
      state.goodbye = message.goodbye().outcome();
    }
  }

  void WriteNext(Session& session) {
    if (session.writing || session.outbox.empty()) {
      return;
    }
    session.writing = true;
    session.reactor->outgoing = std::move(session.outbox.front());
    session.outbox.pop_front();
    session.reactor->StartWrite(&session.reactor->outgoing);
  }

  void End(int64_t id) {
    sessions_[id].reactor->Finish(grpc::Status::OK);
    sessions_.erase(id);
  }

  boost::asio::io_context& loop_;
  const std::string socket_path_;
  Events events_;
  std::weak_ptr<Listener> self_;
  std::atomic<int64_t> next_session_{1};
  std::map<int64_t, Session> sessions_;
  std::map<int, WorkerProgress> progress_;
  std::unique_ptr<grpc::Server> server_;
};

/// Keeps the shared implementation alive for as long as its owner wants it.
class OwnedService final : public WorkerService {
 public:
  explicit OwnedService(std::shared_ptr<ServiceImpl> impl) : impl_(std::move(impl)) {}

  ~OwnedService() override { impl_->Shutdown(); }

  int Send(const ControlRequest& request) override { return impl_->Send(request); }

  const std::map<int, WorkerProgress>& progress() const override { return impl_->progress(); }

 private:
  std::shared_ptr<ServiceImpl> impl_;
};

}  // namespace

Result<std::unique_ptr<WorkerService>> WorkerService::Start(boost::asio::io_context& loop,
                                                            const std::string& socket_path,
                                                            Events events) {
  auto impl = std::make_shared<ServiceImpl>(loop, socket_path, std::move(events));
  LR_TRY(impl->Serve(impl));
  return std::unique_ptr<WorkerService>(std::make_unique<OwnedService>(std::move(impl)));
}

}  // namespace lr::launcher
