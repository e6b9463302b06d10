#include "launcher/supervise/sweeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>

#include "common/base/text.h"
#include "launcher/supervise/process_tree.h"

namespace lr::launcher {
namespace {

constexpr int kLinkFd = 3;

/// Own session, no streams, no descriptor but the link, deaf to what a terminal or a scheduler
/// sends to everybody.
void Detach(int link) {
  setsid();
  prctl(PR_SET_NAME, "lr-sweeper");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(null, stream);
  }
  dup2(link, kLinkFd);
  syscall(SYS_close_range, static_cast<unsigned>(kLinkFd + 1), UINT_MAX, 0U);
  if (chdir("/") != 0) {
    return;  // only to leave a mount free; staying is harmless
  }
}

using Clock = std::chrono::steady_clock;
using KnownProcesses = std::map<pid_t, uint64_t>;  ///< with the start time

/// A look costs what walking /proc costs: at most every second, and at most 0.2 % of a processor.
constexpr std::chrono::milliseconds kLookPause{1000};
constexpr int kLookShare = 500;

/// The launcher's descendants now. Helpers that left their session and cleaned their environment
/// can be told from strangers only while the launcher lives.
void Look(const ProcessInfo& launcher, KnownProcesses& known) {
  RunMembership membership;
  membership.root = launcher.pid;
  membership.never = {getpid()};
  const std::vector<ProcessInfo> processes = ListProcesses();
  const std::optional<ProcessInfo> now = ReadProcess(launcher.pid);
  if (!now || now->zombie() || now->start_time != launcher.start_time) {
    return;  // it died meanwhile
  }
  KnownProcesses alive;
  for (const ProcessInfo& process : processes) {
    const auto before = known.find(process.pid);
    if (before != known.end() && before->second == process.start_time) {
      alive.insert(*before);
    }
  }
  for (const ProcessInfo& process : SelectMembers(processes, membership)) {
    alive[process.pid] = process.start_time;
  }
  known = std::move(alive);
}

/// Everything written to the link until it closes; looks at the processes now and then.
std::string ReadUntilClosed(const ProcessInfo& launcher, KnownProcesses& known) {
  std::string text;
  std::array<char, 4096> buffer{};
  Clock::duration pause = kLookPause;
  while (true) {
    pollfd link{.fd = kLinkFd, .events = POLLIN, .revents = 0};
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(pause);
    if (poll(&link, 1, static_cast<int>(wait.count())) == 0) {
      const Clock::time_point start = Clock::now();
      Look(launcher, known);
      pause = std::max<Clock::duration>(kLookPause, (Clock::now() - start) * kLookShare);
      continue;
    }
    const ssize_t got = read(kLinkFd, buffer.data(), buffer.size());
    if (got > 0) {
      text.append(buffer.data(), static_cast<size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return text;
    }
  }
}

void Pause(int milliseconds) {
  const timespec pause{.tv_sec = 0, .tv_nsec = milliseconds * 1'000'000L};
  nanosleep(&pause, nullptr);
}

/// Kills until two looks in a row find nothing (a process may fork between look and kill); gives up
/// on processes stuck in the kernel after 10 s.
void SweepAll(RunMembership membership, const KnownProcesses& known, const std::string& marker) {
  constexpr int kPauseMs = 10;
  int empty_looks = 0;
  for (int waited = 0; waited < 10'000 && empty_looks < 2; waited += kPauseMs) {
    membership.marked.clear();
    for (const auto& [pid, start_time] : known) {
      const std::optional<ProcessInfo> now = ReadProcess(pid);
      if (now && now->start_time == start_time) {
        membership.marked.insert(pid);
      }
    }
    empty_looks = SweepOnce(membership, marker).empty() ? empty_looks + 1 : 0;
    Pause(kPauseMs);
  }
}

[[noreturn]] void RunSweeper(int link, const ProcessInfo& launcher, const std::string& marker) {
  Detach(link);
  KnownProcesses known;
  RunMembership membership;
  for (const std::string& line : Split(ReadUntilClosed(launcher, known), '\n')) {
    const std::vector<std::string> fields = Split(line, ' ');
    const std::optional<int64_t> session = ParseInt(fields.front());
    const std::optional<int64_t> start_time = ParseInt(fields.back());
    if (fields.size() == 2 && session && start_time) {
      membership.sessions[static_cast<pid_t>(*session)] = static_cast<uint64_t>(*start_time);
    }
  }
  membership.never.insert(getpid());
  SweepAll(std::move(membership), known, marker);
  _exit(0);
}

}  // namespace

Result<Sweeper> Sweeper::Start(const std::string& marker) {
  LR_ASSIGN(Pipe link, MakePipe());
  const std::optional<ProcessInfo> self = ReadProcess(getpid());
  if (!self) {
    return FailedPrecondition("cannot start the sweeper: /proc is not readable");
  }
  const pid_t pid = fork();
  if (pid < 0) {
    return ResourceExhausted("cannot start the sweeper: {}",
                             std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  if (pid == 0) {
    RunSweeper(link.read_end.get(), *self, marker);
  }
  return Sweeper(pid, std::move(link.write_end));
}

Sweeper::~Sweeper() {
  if (link_.get() >= 0) {
    Dismiss();
  }
}

void Sweeper::Watch(pid_t session, uint64_t start_time) {
  const std::string line = fmt::format("{} {}\n", session, start_time);
  // The pipe is empty but for these lines; when the sweeper was killed by somebody, the marker
  // alone must do.
  if (write(link_.get(), line.data(), line.size()) < 0) {
    return;
  }
}

void Sweeper::Dismiss() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  link_.Reset(-1);
}

}  // namespace lr::launcher
