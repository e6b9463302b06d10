#include "launcher/supervise/process_tree.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/text.h"
#include "launcher/supervise/process.h"

namespace lr::launcher {
namespace {

constexpr pid_t kInit =
    1;  // also the parent, pid and session numbers that the kernel gives its own threads

constexpr size_t kEnvironmentLimit =
    4 * 1024 * 1024;  // the kernel's own bound on arguments and environment is below

/// A file of /proc, up to `limit` bytes; empty when it cannot be read (process gone, or not ours).
std::string ReadProcFile(const std::string& path, size_t limit) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (file.get() < 0) {
    return text;
  }
  constexpr size_t kStep = 8192;
  while (text.size() < limit) {
    const size_t before = text.size();
    text.resize(before + kStep);
    const ssize_t got = read(file.get(), text.data() + before, kStep);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) {
      break;
    }
  }
  return text;
}

template <typename Number>
Number ParseNumber(std::string_view text) {
  Number number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::optional<ProcessInfo> ParseStat(std::string_view line) {
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');  // the command may hold parentheses and spaces
  if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
      close + 2 >= line.size()) {
    return std::nullopt;
  }
  const std::vector<std::string> fields = Split(line.substr(close + 2), ' ');
  constexpr size_t kStartTime = 19;  // field 22 of the line, counted from the state
  if (fields.size() <= kStartTime) {
    return std::nullopt;
  }
  ProcessInfo info;
  info.pid = ParseNumber<pid_t>(Trim(line.substr(0, open)));
  info.command = std::string(line.substr(open + 1, close - open - 1));
  info.state = fields[0].empty() ? '?' : fields[0][0];
  info.parent = ParseNumber<pid_t>(fields[1]);
  info.session = ParseNumber<pid_t>(fields[3]);
  info.start_time = ParseNumber<uint64_t>(fields[kStartTime]);
  return info.pid > 0 ? std::optional(info) : std::nullopt;
}

std::optional<ProcessInfo> ReadProcess(pid_t pid) {
  return ParseStat(ReadProcFile(fmt::format("/proc/{}/stat", pid), 8192));
}

std::vector<ProcessInfo> ListProcesses() {
  std::vector<ProcessInfo> processes;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) {
    return processes;
  }
  while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::optional<int64_t> pid = ParseInt(entry->d_name);
    if (!pid) {
      continue;
    }
    if (std::optional<ProcessInfo> info = ReadProcess(static_cast<pid_t>(*pid))) {
      processes.push_back(*std::move(info));
    }
  }
  closedir(folder);
  return processes;
}

namespace {

/// The watched sessions that still are what they were.
std::set<pid_t> LiveSessions(const std::vector<ProcessInfo>& processes,
                             const RunMembership& membership) {
  std::set<pid_t> sessions;
  for (const auto& [session, start_time] : membership.sessions) {
    if (session > kInit) {
      sessions.insert(session);
    }
  }
  for (const ProcessInfo& process : processes) {
    const auto watched = membership.sessions.find(process.pid);
    if (watched != membership.sessions.end() && watched->second != process.start_time) {
      sessions.erase(process.pid);
    }
  }
  return sessions;
}

/// Whoever started us is not of our run, even when it carries our marker.
std::set<pid_t> SelfAndAncestors(const std::vector<ProcessInfo>& processes) {
  std::map<pid_t, pid_t> parents;
  for (const ProcessInfo& process : processes) {
    parents[process.pid] = process.parent;
  }
  std::set<pid_t> line;
  for (pid_t pid = getpid(); pid > 0 && line.insert(pid).second;) {
    const auto parent = parents.find(pid);
    pid = parent == parents.end() ? 0 : parent->second;
  }
  return line;
}

}  // namespace

std::vector<ProcessInfo> SelectMembers(const std::vector<ProcessInfo>& processes,
                                       const RunMembership& membership) {
  const std::set<pid_t> sessions = LiveSessions(processes, membership);
  std::multimap<pid_t, const ProcessInfo*> children;
  std::vector<const ProcessInfo*> found;
  for (const ProcessInfo& process : processes) {
    children.emplace(process.parent, &process);
    if ((membership.root > 0 && process.parent == membership.root) ||
        sessions.contains(process.session) || membership.marked.contains(process.pid)) {
      found.push_back(&process);
    }
  }
  std::set<pid_t> seen;
  std::vector<ProcessInfo> members;
  for (size_t i = 0; i < found.size(); ++i) {  // grows while descendants are found
    const ProcessInfo& process = *found[i];
    if (process.pid <= kInit || membership.never.contains(process.pid) ||
        !seen.insert(process.pid).second) {
      continue;
    }
    if (!process.zombie()) {
      members.push_back(process);
    }
    const auto [begin, end] = children.equal_range(process.pid);
    for (auto child = begin; child != end; ++child) {
      found.push_back(child->second);
    }
  }
  return members;
}

bool CarriesMarker(pid_t pid, std::string_view marker) {
  const std::string environment =
      ReadProcFile(fmt::format("/proc/{}/environ", pid), kEnvironmentLimit);
  const std::string_view text(environment);
  for (size_t at = text.find(marker); at != std::string_view::npos;
       at = text.find(marker, at + 1)) {
    const size_t end = at + marker.size();
    if ((at == 0 || text[at - 1] == '\0') && (end == text.size() || text[end] == '\0')) {
      return true;
    }
  }
  return false;
}

bool KillExactly(const ProcessInfo& process) {
  LR_CHECK(process.pid > kInit, "process {} is never killed", process.pid);
  const Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0U)));
  if (pidfd.get() < 0) {
    return false;
  }
  const std::optional<ProcessInfo> now =
      ReadProcess(process.pid);  // after the pidfd: it cannot be recycled any more
  if (!now || now->start_time != process.start_time || now->zombie()) {
    return false;
  }
  return syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0U) == 0;
}

std::vector<ProcessInfo> SweepOnce(const RunMembership& membership, std::string_view marker) {
  const size_t value = marker.find('=') + 1;
  LR_CHECK(value > 1 && value < marker.size(), "'{}' would mark foreign processes", marker);
  const std::vector<ProcessInfo> processes = ListProcesses();
  RunMembership extended = membership;
  extended.never.merge(SelfAndAncestors(processes));
  for (const ProcessInfo& process : processes) {
    if (!process.zombie() && CarriesMarker(process.pid, marker)) {
      extended.marked.insert(process.pid);
    }
  }
  std::vector<ProcessInfo> members = SelectMembers(processes, extended);
  for (const ProcessInfo& process : members) {
    KillExactly(process);
  }
  return members;
}

void ReapOrphans(const std::set<pid_t>& keep) {
  const pid_t self = getpid();
  for (const ProcessInfo& process : ListProcesses()) {
    if (process.parent == self && process.zombie() && !keep.contains(process.pid)) {
      waitpid(process.pid, nullptr, WNOHANG);
    }
  }
}

void BecomeSubreaper() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool HandlesSignal(pid_t pid, int signal) {
  const std::string status = ReadProcFile(fmt::format("/proc/{}/status", pid), 16 * 1024);
  constexpr std::string_view kField = "\nSigCgt:\t";
  const size_t at = status.find(kField);
  if (at == std::string::npos) {
    return false;
  }
  uint64_t mask = 0;
  const char* begin = status.data() + at + kField.size();
  std::from_chars(begin, status.data() + status.size(), mask, 16);
  return ((mask >> (signal - 1)) & 1U) != 0;
}

}  // namespace lr::launcher
