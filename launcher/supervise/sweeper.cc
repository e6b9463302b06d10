#include "launcher/supervise/sweeper.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
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

/// Everything written to the link until it closes.
std::string ReadUntilClosed() {
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
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
void SweepAll(const RunMembership& membership, const std::string& marker) {
  constexpr int kPauseMs = 10;
  int empty_looks = 0;
  for (int waited = 0; waited < 10'000 && empty_looks < 2; waited += kPauseMs) {
    empty_looks = SweepOnce(membership, marker).empty() ? empty_looks + 1 : 0;
    Pause(kPauseMs);
  }
}

[[noreturn]] void RunSweeper(int link, const std::string& marker) {
  Detach(link);
  RunMembership membership;
  for (const std::string& line : Split(ReadUntilClosed(), '\n')) {
    const std::vector<std::string> fields = Split(line, ' ');
    const std::optional<int64_t> session = ParseInt(fields.front());
    const std::optional<int64_t> start_time = ParseInt(fields.back());
    if (fields.size() == 2 && session && start_time) {
      membership.sessions[static_cast<pid_t>(*session)] = static_cast<uint64_t>(*start_time);
    }
  }
  membership.never.insert(getpid());
  SweepAll(membership, marker);
  _exit(0);
}

}  // namespace

Result<Sweeper> Sweeper::Start(const std::string& marker) {
  LR_ASSIGN(Pipe link, MakePipe());
  const pid_t pid = fork();
  if (pid < 0) {
    return ResourceExhausted("cannot start the sweeper: {}",
                             std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  if (pid == 0) {
    RunSweeper(link.read_end.get(), marker);
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
