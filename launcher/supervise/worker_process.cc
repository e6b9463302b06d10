#include "launcher/supervise/worker_process.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "common/contract/error_file.h"

namespace lr::launcher {
namespace {

constexpr size_t kReportedLines = 50;
constexpr int kExitNotFound = 127;  // as a shell says it
constexpr int kExitNotStarted = 126;

int64_t UnixNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

class WorkerProcess::State : public std::enable_shared_from_this<WorkerProcess::State> {
 public:
  State(boost::asio::io_context& loop,
        OutputSinks sinks,
        KernelEvidence& kernel,
        WorkerSpec spec,
        OnEnded on_ended)
      : loop_(loop),
        sinks_(sinks),
        kernel_(kernel),
        spec_(std::move(spec)),
        on_ended_(std::move(on_ended)),
        exit_(loop) {}

  void Start() {
    start_unix_ns_ = UnixNanoseconds();
    if (Status started = TryStart(); !started.ok()) {
      boost::asio::post(loop_, [weak = weak_from_this(), started] {
        if (const auto self = weak.lock()) {
          self->ReportNotStarted(started);
        }
      });
    }
  }

  void Signal(int signal, bool stop) {
    if (!running_) {
      return;
    }
    stopped_by_us_ = stopped_by_us_ || stop;
    if (signal == SIGWINCH) {
      out_->FitTerminal();
      err_->FitTerminal();
    }
    kill(-pid_, signal);  // the leader is not reaped yet, so the group is still ours
  }

  bool running() const { return running_; }

  pid_t pid() const { return pid_; }

  uint64_t start_time() const { return start_time_; }

  const WorkerSpec& spec() const { return spec_; }

 private:
  Status TryStart() {
    LR_ASSIGN(Pipe out, spec_.terminal ? MakeTerminal() : MakePipe());
    LR_ASSIGN(Pipe err, spec_.terminal ? MakeTerminal() : MakePipe());
    const Descriptor null(spec_.inherit_stdin ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC));
    const SpawnRequest request{.executable = spec_.executable,
                               .argv = spec_.argv,
                               .environment = spec_.environment,
                               .stdin_fd = spec_.inherit_stdin ? STDIN_FILENO : null.get(),
                               .stdout_fd = out.write_end.get(),
                               .stderr_fd = err.write_end.get(),
                               .cpus = spec_.cpus};
    LR_ASSIGN(SpawnedProcess process, Spawn(request));
    pid_ = process.pid;
    start_time_ = process.start_time;
    lifeline_ = std::move(process.lifeline);
    running_ = true;
    kernel_.Track(pid_);
    out_.emplace(loop_, sinks_, ConsoleStream::kOut, spec_.out, std::move(out.read_end));
    err_.emplace(loop_, sinks_, ConsoleStream::kErr, spec_.err, std::move(err.read_end));
    exit_.assign(process.pidfd.Release());
    AwaitExit();
    return {};
  }

  void AwaitExit() {
    exit_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const boost::system::error_code& error) {
                       const auto self = weak.lock();
                       if (!error && self) {
                         self->OnExit();
                       }
                     });
  }

  void OnExit() {
    siginfo_t info{};
    if (waitid(static_cast<idtype_t>(P_PIDFD),
               static_cast<id_t>(exit_.native_handle()),
               &info,
               WEXITED | WNOHANG) != 0 ||
        info.si_pid == 0) {
      AwaitExit();
      return;
    }
    running_ = false;
    exit_.close();
    out_->Drain();
    err_->Drain();
    WorkerEnding ending = Ending();
    ending.exit_code = info.si_code == CLD_EXITED ? info.si_status : 0;
    ending.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    ending.core_dumped = info.si_code == CLD_DUMPED;
    ending.last_lines = err_->tail().Lines(kReportedLines);
    if (ending.last_lines.empty()) {
      ending.last_lines = out_->tail().Lines(kReportedLines);
      ending.last_lines_are_stdout = !ending.last_lines.empty();
    }
    if (!ending.succeeded()) {
      ending.message = ReadErrorFile(spec_.error_file);
    }
    if (!ending.stopped_by_us) {
      ending.kernel_evidence = kernel_.Explain(ending);
    }
    on_ended_(ending);
  }

  void ReportNotStarted(const Status& status) {
    WorkerEnding ending = Ending();
    ending.exit_code = status.code() == StatusCode::kNotFound ? kExitNotFound : kExitNotStarted;
    ending.message = status.message();
    on_ended_(ending);
  }

  WorkerEnding Ending() const {
    WorkerEnding ending;
    ending.rank = spec_.rank;
    ending.local_rank = spec_.local_rank;
    ending.node_rank = spec_.node_rank;
    ending.host_name = spec_.host_name;
    ending.pid = pid_;
    ending.stopped_by_us = stopped_by_us_;
    ending.start_unix_ns = start_unix_ns_;
    ending.end_unix_ns = UnixNanoseconds();
    ending.error_file = spec_.error_file;
    return ending;
  }

  boost::asio::io_context& loop_;
  OutputSinks sinks_;
  KernelEvidence& kernel_;
  WorkerSpec spec_;
  OnEnded on_ended_;
  boost::asio::posix::stream_descriptor exit_;  ///< the pidfd
  std::optional<OutputPump> out_;
  std::optional<OutputPump> err_;
  pid_t pid_ = 0;
  uint64_t start_time_ = 0;
  Lifeline lifeline_;
  int64_t start_unix_ns_ = 0;
  bool running_ = false;
  bool stopped_by_us_ = false;
};

WorkerProcess::WorkerProcess(boost::asio::io_context& loop,
                             OutputSinks sinks,
                             KernelEvidence& kernel,
                             WorkerSpec spec,
                             OnEnded on_ended)
    : state_(std::make_shared<State>(loop, sinks, kernel, std::move(spec), std::move(on_ended))) {}

WorkerProcess::~WorkerProcess() = default;

void WorkerProcess::Start() {
  state_->Start();
}

void WorkerProcess::Signal(int signal, bool stop) {
  state_->Signal(signal, stop);
}

bool WorkerProcess::running() const {
  return state_->running();
}

pid_t WorkerProcess::pid() const {
  return state_->pid();
}

uint64_t WorkerProcess::start_time() const {
  return state_->start_time();
}

const WorkerSpec& WorkerProcess::spec() const {
  return state_->spec();
}

}  // namespace lr::launcher
