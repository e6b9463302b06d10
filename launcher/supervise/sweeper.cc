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
#include <utility>
#include <vector>

#include <climits>

#include "launcher/supervise/process_tree.h"
#include "launcher/supervise/sweeper_board.h"

namespace lr::launcher {
namespace {

constexpr int kLinkFd = 3;
constexpr int kAliveFd = 4;
constexpr int kDismissLimitMs = 1000;

/// Own session, no streams, no descriptor but link and sign of life, deaf to what a terminal or a
/// scheduler sends to everybody.
void Detach(int link, int alive) {
  setsid();
  prctl(PR_SET_NAME, "lr-sweeper");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(null, stream);
  }
  const int kept = fcntl(alive, F_DUPFD, kAliveFd + 1);  // `alive` may be kLinkFd itself
  dup2(link, kLinkFd);
  dup2(kept, kAliveFd);
  syscall(SYS_close_range, static_cast<unsigned>(kAliveFd + 1), UINT_MAX, 0U);
  if (chdir("/") != 0) {
    return;  // only to leave a mount free; staying is harmless
  }
}

using Clock = std::chrono::steady_clock;
using KnownProcesses = std::map<pid_t, uint64_t>;  ///< with the start time

/// A look costs what walking /proc costs: at most every second, and at most 0.2 % of a processor
/// for each of the two.
constexpr std::chrono::milliseconds kLookPause{1000};
constexpr int kLookShare = 500;

/// The launcher's descendants now. Helpers that left their session and cleaned their environment
/// can be told from strangers only while the launcher lives.
void Look(const ProcessInfo& launcher, std::set<pid_t> sweepers, KnownProcesses& known) {
  RunMembership membership;
  membership.root = launcher.pid;
  membership.never = std::move(sweepers);
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

/// One of the two. The other is its parent or its child.
class SweeperProcess {
 public:
  SweeperProcess(SweeperBoard& board, ProcessInfo launcher, std::string marker)
      : board_(board), launcher_(std::move(launcher)), marker_(std::move(marker)) {
    board_.SetSweeper(place_, getpid());
  }

  /// The first of the two says on `alive` when the second is there.
  [[noreturn]] void Run() {
    ForkTheOther();
    if (place_ == 0) {
      [[maybe_unused]] const ssize_t told = write(kAliveFd, "2", 1);
    }
    WaitForTheLaunchersEnd();
    if (!board_.dismissed()) {
      RunMembership membership;
      membership.sessions = board_.Sessions();
      membership.never = board_.Sweepers();
      membership.never.insert(getpid());
      SweepAll(std::move(membership), known_, marker_);
    }
    _exit(0);
  }

 private:
  void WaitForTheLaunchersEnd() {
    Clock::duration pause = kLookPause;
    while (true) {
      if (other_.get() < 0) {
        ForkTheOther();
      }
      std::array<pollfd, 2> news{{{.fd = kLinkFd, .events = POLLIN, .revents = 0},
                                  {.fd = other_.get(), .events = POLLIN, .revents = 0}}};
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(pause);
      const int ready = poll(news.data(), news.size(), static_cast<int>(wait.count()));
      if (news[0].revents != 0) {
        return;
      }
      if (news[1].revents != 0) {
        waitpid(other_pid_, nullptr, WNOHANG);  // when it is our child
        other_.Reset(-1);
      } else if (ready == 0) {
        const Clock::time_point start = Clock::now();
        Look(launcher_, board_.Sweepers(), known_);
        pause = std::max<Clock::duration>(kLookPause, (Clock::now() - start) * kLookShare);
      }
    }
  }

  /// Returns in both processes, with all that this one knows. Without resources for another process
  /// it is tried again after the next look.
  void ForkTheOther() {
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) {
      setsid();
      place_ = 1 - place_;
      other_pid_ = self;
      board_.SetSweeper(place_, getpid());
      other_ = OpenProcess(self);
      if (getppid() != self) {
        other_.Reset(-1);  // it died before we watched it
      }
    } else if (child > 0) {
      other_pid_ = child;
      board_.SetSweeper(1 - place_, child);
      other_ = OpenProcess(child);  // ours until we reap it: no other process can have this number
    }
  }

  static Descriptor OpenProcess(pid_t pid) {
    return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)));
  }

  SweeperBoard& board_;
  const ProcessInfo launcher_;
  const std::string marker_;
  int place_ = 0;  ///< on the board
  pid_t other_pid_ = 0;
  Descriptor other_;  ///< its pidfd
  KnownProcesses known_;
};

}  // namespace

Sweeper::Sweeper(std::unique_ptr<SweeperBoard> board, Descriptor link, Descriptor alive)
    : board_(std::move(board)), link_(std::move(link)), alive_(std::move(alive)) {}

Sweeper::Sweeper(Sweeper&&) noexcept = default;

Sweeper& Sweeper::operator=(Sweeper&&) noexcept = default;

Result<Sweeper> Sweeper::Start(const std::string& marker) {
  LR_ASSIGN(std::unique_ptr<SweeperBoard> board, SweeperBoard::Create());
  LR_ASSIGN(Pipe link, MakePipe());
  LR_ASSIGN(Pipe alive, MakePipe());
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
    Detach(link.read_end.get(), alive.write_end.get());
    SweeperProcess(*board, *self, marker).Run();
  }
  board->SetSweeper(0, pid);
  alive.write_end.Reset();
  char told = 0;
  while (read(alive.read_end.get(), &told, 1) < 0 && errno == EINTR) {
  }
  return Sweeper(std::move(board), std::move(link.write_end), std::move(alive.read_end));
}

Sweeper::~Sweeper() {
  if (board_ != nullptr) {
    Dismiss();
  }
}

void Sweeper::Watch(pid_t session, uint64_t start_time) {
  board_->AddSession(session, start_time);
}

std::set<pid_t> Sweeper::pids() const {
  return board_->Sweepers();
}

void Sweeper::Dismiss() {
  if (link_.get() < 0) {
    return;
  }
  board_->Dismiss();
  link_.Reset(-1);
  pollfd alive{.fd = alive_.get(), .events = POLLIN, .revents = 0};
  if (poll(&alive, 1, kDismissLimitMs) > 0) {
    for (const pid_t pid : board_->Sweepers()) {
      waitpid(pid, nullptr, 0);  // nothing to wait for where it is the other one's child
    }
  }
}

}  // namespace lr::launcher
