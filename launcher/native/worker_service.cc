// The server side of worker.proto. A reactor decodes and posts to the loop; the loop owns every
// session and is the only one that reads, writes or finishes, one message at a time.
#include "launcher/native/worker_service.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include <grpcpp/support/server_callback.h>

#include "proto/lr/v1/worker.grpc.pb.h"

#include "common/rpc/loop_gate.h"
#include "common/rpc/unix_server.h"

namespace lr::launcher {

namespace {

constexpr int kLargestMessage = 64 << 10;
constexpr std::chrono::milliseconds kEndLimit{200};

static_assert(static_cast<int>(WorkerPhase::kInit) == v1::WORKER_PHASE_INIT &&
              static_cast<int>(WorkerPhase::kReduce) == v1::WORKER_PHASE_REDUCE &&
              static_cast<int>(WorkerPhase::kIdle) == v1::WORKER_PHASE_IDLE);

/// A span from outside, as far as arithmetic on it is safe.
int64_t Bounded(int64_t value) {
  return std::clamp<int64_t>(value, 0, INT64_MAX / 1'000'000'000);
}

void ApplyStep(const v1::StepReport& report, WorkerProgress& state) {
  state.phase = static_cast<WorkerPhase>(
      std::clamp<int>(report.phase(), 0, v1::WorkerPhase_MAX));  // later ones are idle to us
  state.step = report.step();
  state.total_steps = report.total_steps();
  state.loss = report.loss();
  state.samples_per_s = report.samples_per_s();
  state.ticks = report.ticks();
  state.in_phase = std::chrono::milliseconds(Bounded(report.phase_ms()));
  state.steps_done = report.steps_done();
  state.steps_timed = report.steps_timed();
  state.step_median = std::chrono::microseconds(Bounded(report.step_median_us()));
  state.step_longest = std::chrono::microseconds(Bounded(report.step_longest_us()));
  state.last_save = std::chrono::milliseconds(Bounded(report.last_save_ms()));
  state.phase_total.clear();
  for (int i = 0; i < std::min(report.phase_total_us_size(), kWorkerPhases); ++i) {
    state.phase_total.emplace_back(Bounded(report.phase_total_us(i)));
  }
  state.collectives.clear();
  for (const v1::CollectiveState& one : report.collectives()) {
    state.collectives.push_back({one.group(), one.entered(), one.operation(), one.bytes()});
  }
}

v1::ControlKind KindOf(ControlRequest::Kind kind) {
  switch (kind) {
    case ControlRequest::Kind::kCheckpoint:
      return v1::CONTROL_KIND_CHECKPOINT;
    case ControlRequest::Kind::kCheckpointAndStop:
      return v1::CONTROL_KIND_CHECKPOINT_AND_STOP;
    case ControlRequest::Kind::kStop:
      return v1::CONTROL_KIND_STOP;
    case ControlRequest::Kind::kStacks:
    case ControlRequest::Kind::kStragglers:
      break;  // no words for workers
  }
  return v1::CONTROL_KIND_NONE;
}

class WorkerStream;

/// What the streams tell the service, on the loop.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnMessage(WorkerStream& from, const v1::WorkerMessage& message) = 0;
  virtual void OnEnd(WorkerStream& from) = 0;
};

/// One worker's stream. The loop starts operations until it finishes the stream; gRPC's threads
/// only post. Keeps itself alive until gRPC's last call, which comes after Finish().
class WorkerStream final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::LauncherMessage>,
                           public std::enable_shared_from_this<WorkerStream> {
 public:
  WorkerStream(std::shared_ptr<rpc::LoopGate> gate, Listener& listener)
      : gate_(std::move(gate)), listener_(listener) {}

  void Begin() { self_ = shared_from_this(); }

  void ReadNext() {
    if (!finished_) {
      StartRead(&incoming_);
    }
  }

  void Send(v1::LauncherMessage message) {
    outbox_.push_back(std::move(message));
    WriteNext();
  }

  void End() {
    if (!std::exchange(finished_, true)) {
      Finish(grpc::Status::OK);
    }
  }

  void OnReadDone(bool ok) override {
    gate_->Post([self = shared_from_this(), ok] {
      if (ok && !self->finished_) {
        self->listener_.OnMessage(*self, self->incoming_);
        self->ReadNext();
      } else {
        self->listener_.OnEnd(*self);
      }
    });
  }

  void OnWriteDone(bool /*ok*/) override {  // a broken stream ends its reads, too
    gate_->Post([self = shared_from_this()] {
      self->writing_ = false;
      self->outbox_.pop_front();
      self->WriteNext();
    });
  }

  void OnDone() override { self_.reset(); }

  int rank = -1;  ///< until its hello

 private:
  void WriteNext() {
    if (!writing_ && !outbox_.empty() && !finished_) {
      writing_ = true;
      StartWrite(&outbox_.front());
    }
  }

  const std::shared_ptr<rpc::LoopGate> gate_;
  Listener& listener_;  // used behind the gate only
  std::shared_ptr<WorkerStream> self_;
  v1::WorkerMessage incoming_;
  std::deque<v1::LauncherMessage> outbox_;
  bool writing_ = false;
  bool finished_ = false;
};

class ServiceImpl final : public WorkerService,
                          public Listener,
                          public v1::WorkerControl::CallbackService {
 public:
  ServiceImpl(boost::asio::io_context& loop, Events events)
      : gate_(std::make_shared<rpc::LoopGate>(loop)), events_(std::move(events)) {}

  ~ServiceImpl() override {
    gate_->Close();
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    for (const std::shared_ptr<WorkerStream>& stream : streams_) {
      stream->End();
    }
    streams_.clear();
    if (server_) {
      server_->Shutdown(kEndLimit);
    }
  }

  Status Serve(boost::asio::io_context& loop, const std::string& socket_path) {
    LR_ASSIGN(server_, rpc::UnixServer::Listen(loop, socket_path, *this, kLargestMessage));
    return {};
  }

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::LauncherMessage>* Attach(
      grpc::CallbackServerContext* /*context*/) override {
    auto stream = std::make_shared<WorkerStream>(gate_, *this);
    stream->Begin();
    const std::lock_guard lock(mutex_);
    if (closing_) {
      stream->End();
    } else {
      streams_.insert(stream);
      gate_->Post([stream] { stream->ReadNext(); });
    }
    return stream.get();
  }

  int Send(const ControlRequest& request) override {
    const v1::LauncherMessage message = WordOf(request);
    if (request.number > 0) {
      const bool larger = !standing_ || request.kind > standing_->kind;
      standing_ = ControlRequest{.kind = larger ? request.kind : standing_->kind,
                                 .id = request.id,
                                 .number = request.number};
    }
    int count = 0;
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<WorkerStream>& stream : streams_) {
      if (stream->rank >= 0) {
        stream->Send(message);
        ++count;
      }
    }
    return count;
  }

  std::set<int> AskStacks(const std::string& id, std::optional<int> rank) override {
    v1::LauncherMessage message;
    message.mutable_dump()->set_id(id);
    std::set<int> asked;
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<WorkerStream>& stream : streams_) {
      if (stream->rank >= 0 && rank.value_or(stream->rank) == stream->rank) {
        stream->Send(message);
        asked.insert(stream->rank);
      }
    }
    return asked;
  }

  void Forget() override {
    progress_.clear();
    save_begun_.clear();
    standing_.reset();
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<WorkerStream>& stream : streams_) {
      stream->End();
    }
    streams_.clear();
  }

  const std::map<int, WorkerProgress>& progress() const override { return progress_; }

  void OnMessage(WorkerStream& from, const v1::WorkerMessage& message) override {
    if (message.has_hello() && message.hello().rank() >= 0) {
      from.rank = message.hello().rank();
      WorkerProgress& state = progress_[from.rank];
      state.rank = from.rank;
      state.pid = message.hello().pid();
      state.output_dir = message.hello().output_dir();
      if (standing_) {  // asked for before it was there, or while its stream was broken
        from.Send(WordOf(*standing_));
      }
    } else if (from.rank < 0) {
      return OnEnd(from);  // speaks before it said who it is
    } else if (message.has_stacks()) {
      if (events_.stacks) {
        events_.stacks(from.rank, message.stacks().id(), message.stacks().text());
      }
      return;
    } else {
      Apply(message, progress_[from.rank]);
    }
    if (events_.progress) {
      events_.progress(progress_[from.rank]);
    }
    if (message.has_checkpoint() && events_.saved) {
      events_.saved(NewsOf(from.rank, message.checkpoint()));
    }
    if (message.has_goodbye()) {
      OnEnd(from);  // tells the worker that its last words were heard
    }
  }

  void OnEnd(WorkerStream& from) override {
    from.End();
    const std::lock_guard lock(mutex_);
    streams_.erase(from.shared_from_this());
  }

 private:
  static v1::LauncherMessage WordOf(const ControlRequest& request) {
    v1::LauncherMessage message;
    message.mutable_word()->set_kind(KindOf(request.kind));
    message.mutable_word()->set_id(request.id);
    message.mutable_word()->set_number(request.number);
    return message;
  }

  static SaveNews NewsOf(int rank, const v1::CheckpointState& told) {
    return {.rank = rank,
            .running = told.running(),
            .step = told.step(),
            .request = told.request(),
            .directory = told.directory(),
            .error = told.error(),
            .bytes = static_cast<int64_t>(told.bytes()),
            .write_s = told.write_s(),
            .publish_s = told.publish_s()};
  }

  void ApplySave(const v1::CheckpointState& told, WorkerProgress& state) {
    const auto now = std::chrono::steady_clock::now();
    if (told.running()) {
      save_begun_[state.rank] = now;
      return;
    }
    if (standing_ && told.request() >= standing_->number) {
      standing_.reset();
    }
    state.checkpoint_error = told.error();
    if (told.error().empty()) {
      state.checkpoint_step = told.step();
      state.checkpoint_dir = told.directory();
      if (const auto begun = save_begun_.find(state.rank); begun != save_begun_.end()) {
        state.estimates.save_s = std::chrono::duration<double>(now - begun->second).count();
      }
    }
    ++state.checkpoint_reports;
  }

  void Apply(const v1::WorkerMessage& message, WorkerProgress& state) {
    if (message.has_step()) {
      ApplyStep(message.step(), state);
      state.estimates.step_s = message.step().step_s();
    } else if (message.has_checkpoint()) {
      ApplySave(message.checkpoint(), state);
    } else if (message.has_failure()) {
      state.failure = message.failure().what();
    } else if (message.has_goodbye()) {
      state.goodbye = message.goodbye().outcome();
      state.left = true;
    }
  }

  const std::shared_ptr<rpc::LoopGate> gate_;
  const Events events_;
  std::map<int, WorkerProgress> progress_;
  std::map<int, std::chrono::steady_clock::time_point> save_begun_;  ///< by rank
  std::optional<ControlRequest> standing_;  ///< not answered yet: for workers that attach

  std::mutex mutex_;  // before the gate's; guards the next two
  bool closing_ = false;
  std::set<std::shared_ptr<WorkerStream>> streams_;

  std::unique_ptr<rpc::UnixServer> server_;
};

}  // namespace

Result<std::unique_ptr<WorkerService>> WorkerService::Start(boost::asio::io_context& loop,
                                                            const std::string& socket_path,
                                                            Events events) {
  auto service = std::make_unique<ServiceImpl>(loop, std::move(events));
  LR_TRY(service->Serve(loop, socket_path));
  return std::unique_ptr<WorkerService>(std::move(service));
}

}  // namespace lr::launcher
