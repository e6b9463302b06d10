// The stream to the launcher (worker.proto), on its own thread. Everything the step thread hands
// over is kept as "the newest", so a slow or absent launcher costs nothing; a broken stream is
// opened again with back-off for as long as the process lives. Requests for stacks are answered
// here, whatever the step thread does.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <thread>
#include <unistd.h>

#include <grpcpp/client_context.h>

#include "proto/lr/v1/worker.grpc.pb.h"

#include "common/base/blocked_signals.h"
#include "common/rpc/transport.h"
#include "worker/control/control.h"
#include "worker/control/phase_board.h"
#include "worker/control/stack_dump.h"

namespace lr::worker {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kReportEvery = std::chrono::seconds(1);
constexpr auto kLongestBackOff = std::chrono::seconds(5);
constexpr auto kGoodbyeLimit = std::chrono::seconds(1);
constexpr size_t kMostEvents = 1000;
constexpr size_t kLongestText = 16 << 10;  // the launcher takes messages of 64 KiB
constexpr size_t kLongestStacks = 48 << 10;
constexpr size_t kMostGroups = 64;
constexpr int kLargestReply = 64 << 10;

/// Without a launcher that listens: nothing to tell anybody.
class NoLink final : public ControlLink {
 public:
  void SetPhase(Phase /*phase*/) override {}

  void ReportStep(const StepReport& /*report*/) override {}

  void ObserveCollectives(CollectiveProbe /*probe*/) override {}

  void ReportSaveBegun(int64_t /*step*/, int64_t /*request*/) override {}

  void ReportCheckpoint(const SaveReport& /*report*/) override {}

  void ReportFailure(const std::string& /*what*/) override {}

  void Goodbye(const std::string& /*outcome*/) override {}
};

PhaseBoard::Instant Now() {
  return steady_clock::now().time_since_epoch();
}

int64_t Micros(PhaseBoard::Instant span) {
  return std::chrono::duration_cast<std::chrono::microseconds>(span).count();
}

int64_t Millis(PhaseBoard::Instant span) {
  return std::chrono::duration_cast<milliseconds>(span).count();
}

v1::StepReport ToWire(const PhaseBoard::Reading& reading,
                      const std::vector<CollectivePosition>& collectives) {
  v1::StepReport report;
  report.set_step(reading.step.step);
  report.set_total_steps(reading.step.total_steps);
  report.set_loss(reading.step.loss);
  report.set_samples_per_s(reading.step.samples_per_s);
  report.set_step_s(reading.step.step_s);
  report.set_phase(static_cast<v1::WorkerPhase>(reading.phase));
  report.set_ticks(reading.ticks);
  report.set_phase_ms(Millis(reading.in_phase));
  report.set_steps_done(reading.steps_done);
  report.set_steps_timed(reading.steps_timed);
  report.set_step_median_us(Micros(reading.step_median));
  report.set_step_longest_us(Micros(reading.step_longest));
  report.set_last_save_ms(Millis(reading.last_save));
  for (const PhaseBoard::Instant total : reading.phase_total) {
    report.add_phase_total_us(Micros(total));
  }
  for (size_t i = 0; i < std::min(collectives.size(), kMostGroups); ++i) {
    v1::CollectiveState& state = *report.add_collectives();
    state.set_group(collectives[i].group);
    state.set_entered(collectives[i].entered);
    state.set_operation(collectives[i].operation);
    state.set_bytes(collectives[i].bytes);
  }
  return report;
}

ControlWord WordOf(v1::ControlKind kind) {
  switch (kind) {
    case v1::CONTROL_KIND_CHECKPOINT:
      return ControlWord::kCheckpoint;
    case v1::CONTROL_KIND_CHECKPOINT_AND_STOP:
      return ControlWord::kCheckpointAndStop;
    case v1::CONTROL_KIND_STOP:
      return ControlWord::kStop;
    default:
      return ControlWord::kNone;
  }
}

/// What does not fit is as good as none: the launcher counts from one.
int64_t NumberOf(const v1::ControlWord& word) {
  const bool fits = word.number() >= 0 && word.number() < (int64_t{1} << 48);
  return fits ? word.number() : 0;
}

class StreamLink final : public ControlLink {
 public:
  StreamLink(std::string socket_path, v1::WorkerHello hello, ControlInbox& inbox)
      : socket_path_(std::move(socket_path)), inbox_(inbox), board_(Now()) {
    InstallStackHandler();
    *hello_.mutable_hello() = std::move(hello);
    const BlockedSignals blocked;  // they belong to the step thread
    thread_ = std::thread([this] { Run(); });
    pthread_setname_np(thread_.native_handle(), "link");
  }

  ~StreamLink() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      if (context_ != nullptr) {
        context_->TryCancel();
      }
    }
    changed_.notify_all();
    thread_.join();
  }

  void SetPhase(Phase phase) override { board_.Enter(phase, Now()); }

  void ReportStep(const StepReport& report) override { board_.Finish(report, Now()); }

  void ObserveCollectives(CollectiveProbe probe) override {
    const std::lock_guard lock(mutex_);
    probe_ = std::move(probe);
  }

  void ReportSaveBegun(int64_t step, int64_t request) override {
    v1::WorkerMessage message;
    message.mutable_checkpoint()->set_running(true);
    message.mutable_checkpoint()->set_step(step);
    message.mutable_checkpoint()->set_request(request);
    Enqueue(std::move(message));
  }

  void ReportCheckpoint(const SaveReport& report) override {
    v1::WorkerMessage message;
    v1::CheckpointState& state = *message.mutable_checkpoint();
    state.set_step(report.step);
    state.set_directory(report.directory);
    state.set_error(report.outcome.message().substr(0, kLongestText));
    state.set_request(report.request);
    state.set_bytes(report.bytes);
    state.set_write_s(report.write_s);
    state.set_publish_s(report.publish_s);
    Enqueue(std::move(message));
  }

  void ReportFailure(const std::string& what) override {
    v1::WorkerMessage message;
    message.mutable_failure()->set_what(what.substr(0, kLongestText));
    Enqueue(std::move(message));
  }

  void Goodbye(const std::string& outcome) override {
    v1::WorkerMessage message;
    message.mutable_goodbye()->set_outcome(outcome);
    Enqueue(std::move(message));
    std::unique_lock lock(mutex_);
    leaving_ = true;
    // The launcher ends the stream once it has read the goodbye.
    changed_.wait_for(lock, kGoodbyeLimit, [&] { return events_.empty() && broken_; });
  }

 private:
  using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::LauncherMessage>;

  void Enqueue(v1::WorkerMessage message) {
    {
      const std::lock_guard lock(mutex_);
      if (events_.size() == kMostEvents) {
        events_.pop_front();  // nobody listens; the newest tell more
      }
      events_.push_back(std::move(message));
    }
    changed_.notify_all();
  }

  void Run() {
    auto back_off = milliseconds(100);
    while (!Stopped()) {
      const auto opened = steady_clock::now();
      OneStream();
      if (steady_clock::now() - opened > kLongestBackOff) {
        back_off = milliseconds(100);  // it had worked for a while
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, back_off, [&] { return stop_; });
      back_off = std::min<milliseconds>(back_off * 2, kLongestBackOff);
    }
  }

  bool Stopped() {
    const std::lock_guard lock(mutex_);
    return stop_ || (leaving_ && events_.empty());
  }

  /// Opens a stream and serves it until it breaks or the link ends.
  void OneStream() {
    grpc::ClientContext context;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) {
        return;
      }
      context_ = &context;
    }
    const auto stub =
        v1::WorkerControl::NewStub(rpc::OpenChannel("unix:" + socket_path_, kLargestReply));
    const std::unique_ptr<Stream> stream = stub->Attach(&context);
    std::thread reader([&] { Read(*stream); });
    if (stream->Write(hello_)) {
      Write(*stream);
    }
    stream->WritesDone();
    {
      const std::lock_guard lock(mutex_);
      context_ = nullptr;
    }
    context.TryCancel();
    reader.join();
    (void)stream->Finish();  // whatever ended it: the loop opens the next one
  }

  void Read(Stream& stream) {
    v1::LauncherMessage message;
    while (stream.Read(&message)) {
      if (message.has_word()) {
        inbox_.Raise(WordOf(message.word().kind()), 0, NumberOf(message.word()));
      } else if (message.has_dump()) {
        v1::WorkerMessage answer;
        answer.mutable_stacks()->set_id(message.dump().id());
        answer.mutable_stacks()->set_text(DumpStacks().substr(0, kLongestStacks));
        Enqueue(std::move(answer));
      }
    }
    {
      const std::lock_guard lock(mutex_);
      broken_ = true;
    }
    changed_.notify_all();
  }

  /// Events as they come, the newest report once a second, until the stream breaks.
  void Write(Stream& stream) {
    auto next_report = steady_clock::now();
    std::unique_lock lock(mutex_);
    broken_ = false;
    while (!broken_ && !stop_) {
      v1::WorkerMessage message;
      const bool is_event = !events_.empty();
      if (is_event) {
        message = events_.front();
      } else if (steady_clock::now() >= next_report) {
        *message.mutable_step() =
            ToWire(board_.Read(Now()), probe_ ? probe_() : std::vector<CollectivePosition>());
        next_report = steady_clock::now() + kReportEvery;
      } else {
        changed_.wait_until(
            lock, next_report, [&] { return broken_ || stop_ || !events_.empty(); });
        continue;
      }
      lock.unlock();
      const bool written = stream.Write(message);
      lock.lock();
      if (!written) {
        return;
      }
      if (is_event) {
        events_.pop_front();
      }
    }
  }

  const std::string socket_path_;
  ControlInbox& inbox_;
  v1::WorkerMessage hello_;
  PhaseBoard board_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  CollectiveProbe probe_;
  std::deque<v1::WorkerMessage> events_;
  grpc::ClientContext* context_ = nullptr;
  bool broken_ = false;   ///< the present stream has ended
  bool leaving_ = false;  ///< the goodbye is said: no further stream
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<ControlLink> ControlLink::Start(const std::string& socket_path,
                                                int rank,
                                                const std::string& output_dir,
                                                ControlInbox& inbox) {
  if (socket_path.empty()) {
    return std::make_unique<NoLink>();
  }
  v1::WorkerHello hello;
  hello.set_rank(rank);
  hello.set_pid(getpid());
  hello.set_output_dir(output_dir);
  return std::make_unique<StreamLink>(socket_path, std::move(hello), inbox);
}

}  // namespace lr::worker
