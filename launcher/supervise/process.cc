#include "launcher/supervise/process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utility>

#include <climits>

#include "common/base/blocked_signals.h"
#include "launcher/supervise/process_tree.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

/// The thread sanitizer stands in for clone() and cannot share memory with the child; glibc's own
/// name of the same function is not stood in for.
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LR_CLONE __clone
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);
#endif
#endif
#ifndef LR_CLONE
#define LR_CLONE clone
#endif

namespace lr::launcher {
namespace {

constexpr size_t kChildStackBytes = 64 * 1024;

bool restore_broken_pipes = false;  // set once by main(), read by children

/// What the child needs, prepared before it exists: it must not allocate.
struct ChildPlan {
  const char* executable = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int in = 0;
  int out = 1;
  int err = 2;
  pid_t launcher = 0;
  const Lifeline* lifeline = nullptr;
  const cpu_set_t* cpus = nullptr;  ///< nullptr: as the parent
  bool binding_failed = false;      ///< `error` is of the step to `cpus`
  int error = 0;  ///< errno of the step that failed; read by the parent when the child is gone
};

/// Handlers of ours must never run in the child: it shares our memory. What was ignored stays
/// ignored (L-51).
[[gnu::no_sanitize("address", "undefined", "thread")]] void ResetSignals() {
  struct sigaction action {};

  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN &&
        action.sa_handler != SIG_DFL) {
      std::memset(&action, 0, sizeof(action));
      action.sa_handler = SIG_DFL;
      sigaction(signal, &action, nullptr);
    }
  }
  if (restore_broken_pipes) {
    signal(SIGPIPE, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Runs in the child, on its own small stack, in our memory; the parent is suspended until exec or
/// _exit.
[[gnu::no_sanitize("address", "undefined", "thread")]] int RunChild(void* argument) {
  auto* plan = static_cast<ChildPlan*>(argument);
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan->launcher) {
    _exit(1);  // the launcher died before the signal was armed
  }
  plan->lifeline->Arm(getpid());
  if (dup2(plan->in, STDIN_FILENO) < 0 || dup2(plan->out, STDOUT_FILENO) < 0 ||
      dup2(plan->err, STDERR_FILENO) < 0) {
    plan->error = errno;
    _exit(1);
  }
  if (plan->cpus != nullptr && sched_setaffinity(0, sizeof(cpu_set_t), plan->cpus) != 0) {
    plan->error = errno;
    plan->binding_failed = true;
    _exit(1);
  }
  syscall(SYS_close_range,
          3U,
          UINT_MAX,
          CLOSE_RANGE_CLOEXEC);  // older kernels: ours close on exec anyway
  ResetSignals();
  execve(plan->executable, plan->argv, plan->envp);
  plan->error = errno;
  _exit(1);
}

/// `texts` as the null-terminated array that exec takes; valid as long as `texts`.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentStrings(const Variables& variables) {
  std::vector<std::string> strings;
  for (const auto& [name, value] : variables) {
    strings.push_back(fmt::format("{}={}", name, value));
  }
  return strings;
}

Status SpawnError(const std::string& executable, int error) {
  const std::string reason =
      std::strerror(error);  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
  switch (error) {
    case ENOENT:
      return NotFound(
          "cannot start {}: {} (or the interpreter of its #! line)", executable, reason);
    case EACCES:
    case EPERM:
      return PermissionDenied("cannot start {}: {}", executable, reason);
    case EAGAIN:
    case ENOMEM:
      return ResourceExhausted("cannot start {}: {}", executable, reason);
    default:
      return InvalidArgument("cannot start {}: {}", executable, reason);
  }
}

/// Numbers beyond the fixed size of the set do not occur: they come from such a set.
cpu_set_t CpuSet(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    CPU_SET(static_cast<size_t>(cpu), &set);
  }
  return set;
}

/// clone() with everything blocked, so that no handler of ours runs in the child before
/// ResetSignals().
int CloneChild(ChildPlan& plan, int& pidfd) {
  void* stack = mmap(nullptr,
                     kChildStackBytes,
                     PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
                     -1,
                     0);
  if (stack == MAP_FAILED) {
    return -1;
  }
  int pid = -1;
  int error = 0;
  {
    const BlockedSignals blocked;
    pid = LR_CLONE(RunChild,
                   static_cast<char*>(stack) + kChildStackBytes,
                   CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
                   &plan,
                   &pidfd);
    error = errno;
  }
  munmap(stack, kChildStackBytes);
  errno = error;
  return pid;
}

}  // namespace

void IgnoreBrokenPipes() {
  restore_broken_pipes = signal(SIGPIPE, SIG_IGN) != SIG_IGN;
}

Result<Pipe> MakeTerminal() {
  Pipe terminal{.read_end = Descriptor(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)),
                .write_end = Descriptor()};
  const int main_end = terminal.read_end.get();
  std::array<char, 64> name{};
  if (main_end < 0 || grantpt(main_end) != 0 || unlockpt(main_end) != 0 ||
      ptsname_r(main_end, name.data(), name.size()) != 0) {
    return ResourceExhausted("cannot make a pseudo-terminal: {}",
                             std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  terminal.write_end.Reset(open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios settings{};
  if (tcgetattr(terminal.write_end.get(), &settings) != 0) {
    return ResourceExhausted("cannot open the pseudo-terminal {}: {}",
                             name.data(),
                             std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  cfmakeraw(&settings);
  tcsetattr(terminal.write_end.get(), TCSANOW, &settings);
  FitTerminal(main_end);
  return terminal;
}

void FitTerminal(int fd) {
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
  ioctl(fd, TIOCSWINSZ, &size);
}

Result<SpawnedProcess> Spawn(const SpawnRequest& request) {
  LR_ASSIGN(Lifeline lifeline, Lifeline::Create());
  std::vector<std::string> argv = request.argv;
  std::vector<std::string> environment = EnvironmentStrings(request.environment);
  const std::vector<char*> argv_pointers = Pointers(argv);
  const std::vector<char*> environment_pointers = Pointers(environment);
  ChildPlan plan{.executable = request.executable.c_str(),
                 .argv = argv_pointers.data(),
                 .envp = environment_pointers.data(),
                 .in = request.stdin_fd,
                 .out = request.stdout_fd,
                 .err = request.stderr_fd,
                 .launcher = getpid(),
                 .lifeline = &lifeline};
  const cpu_set_t cpus = CpuSet(request.cpus);
  plan.cpus = request.cpus.empty() ? nullptr : &cpus;
  int pidfd = -1;
  const int pid = CloneChild(plan, pidfd);
  if (pid < 0) {
    return SpawnError(request.executable, errno);
  }
  SpawnedProcess process{.pid = pid, .pidfd = Descriptor(pidfd), .lifeline = std::move(lifeline)};
  if (plan.error != 0) {
    waitpid(pid, nullptr, 0);
    if (plan.binding_failed) {
      return InvalidArgument("cannot start {}: the kernel does not let it use its CPUs: {}",
                             request.executable,
                             std::strerror(plan.error));  // NOLINT(concurrency-mt-unsafe)
    }
    return SpawnError(request.executable, plan.error);
  }
  if (const std::optional<ProcessInfo> info = ReadProcess(pid)) {
    process.start_time = info->start_time;
  }
  return process;
}

}  // namespace lr::launcher
