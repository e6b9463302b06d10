// See the header.
#include "worker/hub/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "common/base/descriptor.h"

namespace lr::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{5};
constexpr size_t kLongestLine = 4096;

/// Cuts a stream at line ends; a progress bar's carriage return is one.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& line) : line_(line) {}

  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n' || c == '\r' || pending_.size() >= kLongestLine) {
        Flush();
      }
      if (c != '\n' && c != '\r') {
        pending_ += c;
      }
    }
  }

  void Flush() {
    if (!pending_.empty() && line_) {
      line_(pending_);
    }
    pending_.clear();
  }

 private:
  const std::function<void(std::string_view)>& line_;
  std::string pending_;
};

/// The child's process id, or a failed status; its outputs go to `output`.
Result<pid_t> Spawn(const std::vector<std::string>& arguments, int output) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return NotFound("cannot start '{}': {}", arguments[0], std::generic_category().message(error));
  }
  return pid;
}

int LeftMs(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000'000));
}

/// What there is to read now; false at the end of the stream.
bool ReadSome(int fd, Lines& lines) {
  std::array<char, 8192> buffer{};
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got > 0) {
    lines.Add({buffer.data(), static_cast<size_t>(got)});
  }
  return got > 0 || (got < 0 && errno == EINTR);
}

/// Until the child has ended, the deadline passed or a stop was asked for.
Status Follow(const Descriptor& child,
              Descriptor& output,
              const ChildOptions& options,
              Lines& lines) {
  const Clock::time_point deadline = Clock::now() + options.limit;
  while (true) {
    std::array<pollfd, 3> wanted = {
        {{child.get(), POLLIN, 0}, {output.get(), POLLIN, 0}, {options.stop_fd, POLLIN, 0}}};
    const int ready = poll(wanted.data(), wanted.size(), LeftMs(deadline));
    if (ready < 0 && errno != EINTR) {
      return Unavailable("poll: {}", std::generic_category().message(errno));
    }
    if (ready > 0 && wanted[2].revents != 0) {
      return Cancelled("stopped");
    }
    if (Clock::now() >= deadline) {  // also of one that never stops talking
      return DeadlineExceeded("it did not end within {:.1f} s",
                              std::chrono::duration<double>(options.limit).count());
    }
    if (ready > 0 && wanted[1].revents != 0) {
      if (!ReadSome(output.get(), lines)) {
        output.Reset();
      }
      continue;  // its output first, then its end
    }
    if (ready > 0 && wanted[0].revents != 0) {
      return {};
    }
  }
}

bool HasEnded(const Descriptor& child, std::chrono::milliseconds within) {
  pollfd wanted{child.get(), POLLIN, 0};
  return poll(&wanted, 1, static_cast<int>(within.count())) > 0;
}

Status HowItEnded(int status) {
  if (WIFEXITED(status)) {
    return WEXITSTATUS(status) == 0
               ? Status()
               : Unavailable("it ended with exit status {}", WEXITSTATUS(status));
  }
  return Unavailable("it was ended by signal {}", WTERMSIG(status));
}

}  // namespace

Status RunChild(const std::vector<std::string>& arguments, const ChildOptions& options) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return Unavailable("pipe: {}", std::generic_category().message(errno));
  }
  Descriptor output(pipe_ends[0]);
  Descriptor input(pipe_ends[1]);
  LR_ASSIGN(const pid_t pid, Spawn(arguments, input.get()));
  input.Reset();
  const Descriptor child(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  Lines lines(options.line);
  Status followed = child.get() >= 0 ? Follow(child, output, options, lines)
                                     : Unavailable("pidfd_open: {}", errno);
  if (!followed.ok()) {
    kill(-pid, SIGTERM);
    if (child.get() < 0 || !HasEnded(child, kGrace)) {
      kill(-pid, SIGKILL);
    }
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  kill(-pid, SIGKILL);  // what it may have left running
  lines.Flush();
  return followed.ok() ? HowItEnded(status) : followed;
}

}  // namespace lr::worker
