#include "launcher/supervise/kernel_evidence.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <sstream>
#include <sys/statvfs.h>
#include <vector>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

constexpr uint64_t kNearlyFull = 1024 * 1024;   // what a loader's tensor does not fit into
constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 writes "none" as a huge number
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// How the two versions of control groups name the same things.
struct GroupFiles {
  std::string_view mount;
  std::string_view controller;  ///< in /proc/<pid>/cgroup
  std::string_view kills;
  std::string_view limit;
  std::string_view peak;
};

constexpr std::array kVersions = std::to_array<GroupFiles>({
    {"/sys/fs/cgroup", "", "memory.events", "memory.max", "memory.peak"},
    {"/sys/fs/cgroup/memory",
     "memory",
     "memory.oom_control",
     "memory.limit_in_bytes",
     "memory.max_usage_in_bytes"},
});

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The path of the process in the hierarchy with this controller: "/job/step" of
/// "4:memory:/job/step".
std::optional<std::string> GroupPath(const std::string& cgroup_file, std::string_view controller) {
  for (const std::string& line : Split(cgroup_file, '\n')) {
    const std::vector<std::string> fields = Split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    const std::vector<std::string> controllers = Split(fields[1], ',');
    if (std::ranges::find(controllers, controller) != controllers.end()) {
      return line.substr(fields[0].size() + fields[1].size() + 2);
    }
  }
  return std::nullopt;
}

/// `path` and everything around it: "/a/b", "/a", "".
std::vector<std::string> Around(std::string path) {
  std::vector<std::string> paths;
  while (true) {
    while (path.ends_with('/')) {
      path.pop_back();
    }
    paths.push_back(path);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
      return paths;
    }
    path.resize(slash);
  }
}

/// The counter of the worker's group or of the nearest one around it, else the machine's.
std::string CounterFile(const std::string& root, pid_t pid) {
  const std::string groups = ReadText(fmt::format("{}/proc/{}/cgroup", root, pid));
  for (const GroupFiles& version : kVersions) {
    const std::optional<std::string> path = GroupPath(groups, version.controller);
    if (!path) {
      continue;
    }
    for (const std::string& group : Around(*path)) {
      std::string file = fmt::format("{}{}{}/{}", root, version.mount, group, version.kills);
      if (CounterIn(ReadText(file), "oom_kill")) {
        return file;
      }
    }
  }
  return root + "/proc/vmstat";
}

/// ", limit 62.0 GiB, peak 61.8 GiB" as far as it is known; the limit may be set further out.
std::string LimitText(const std::string& counter_file) {
  for (const GroupFiles& version : kVersions) {
    if (!counter_file.ends_with(version.kills)) {
      continue;
    }
    const std::string group = counter_file.substr(0, counter_file.rfind('/'));
    const auto number = [&](const std::string& folder, std::string_view name) {
      return ParseInt(Trim(ReadText(fmt::format("{}/{}", folder, name))));
    };
    std::string text;
    for (const std::string& folder : Around(group)) {
      const std::optional<int64_t> limit = number(folder, version.limit);
      if (limit && *limit < kNoLimit) {
        text += fmt::format(", limit {:.1f} GiB", static_cast<double>(*limit) / kGiB);
        break;
      }
    }
    if (const std::optional<int64_t> peak = number(group, version.peak)) {
      text += fmt::format(", peak {:.1f} GiB", static_cast<double>(*peak) / kGiB);
    }
    return text;
  }
  return "";
}

std::string ExplainSharedMemory(const std::string& path) {
  struct statvfs info {};

  if (statvfs(path.c_str(), &info) != 0) {
    return "";
  }
  const uint64_t free = info.f_bavail * info.f_frsize;
  if (free >= kNearlyFull) {
    return "";
  }
  return fmt::format("/dev/shm is full: {} of {} bytes free", free, info.f_blocks * info.f_frsize);
}

}  // namespace

std::optional<int64_t> CounterIn(const std::string& text, const std::string& key) {
  for (const std::string& line : Split(text, '\n')) {
    if (line.starts_with(key + " ")) {
      return ParseInt(Trim(line.substr(key.size())));
    }
  }
  return std::nullopt;
}

void KernelEvidence::Track(pid_t pid) {
  const std::string file = CounterFile(root_, pid);
  counters_[pid] = file;
  kills_before_.try_emplace(file, CounterIn(ReadText(file), "oom_kill").value_or(0));
}

std::string KernelEvidence::Explain(const WorkerEnding& ending) {
  if (ending.signal == SIGBUS) {
    return ExplainSharedMemory(root_ + "/dev/shm");
  }
  const bool exited_with_failure = ending.signal == 0 && !ending.succeeded();
  return ending.signal == SIGKILL || exited_with_failure ? ExplainKill(ending) : "";
}

std::string KernelEvidence::ExplainKill(const WorkerEnding& ending) {
  const auto known = counters_.find(static_cast<pid_t>(ending.pid));
  if (known == counters_.end()) {
    return "";
  }
  const std::string& file = known->second;
  const int64_t kills = CounterIn(ReadText(file), "oom_kill").value_or(0) - kills_before_[file];
  if (kills <= 0) {
    return "";
  }
  if (ending.signal == SIGKILL) {
    ++kills_before_[file];
  }
  if (file.ends_with("/vmstat")) {
    return fmt::format(
        "the machine's counter of kills for lack of memory rose by {} since the worker started",
        kills);
  }
  return fmt::format("{} kill{} for lack of memory in control group {} since the worker started{}",
                     kills,
                     kills == 1 ? "" : "s",
                     file.substr(0, file.rfind('/')),
                     LimitText(file));
}

}  // namespace lr::launcher
