#include "launcher/supervise/process_state.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostThreads = 64;

std::string Read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The value of "Name:\tvalue" in a status file.
std::string Field(const std::string& status, const std::string& name) {
  const std::string key = name + ":";
  for (const std::string& line : Split(status, '\n')) {
    if (line.starts_with(key)) {
      return std::string(Trim(line.substr(key.size())));
    }
  }
  return "";
}

std::vector<int> ThreadsOf(pid_t pid) {
  std::vector<int> threads;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    if (const auto thread = ParseInt(entry.path().filename().string())) {
      threads.push_back(static_cast<int>(*thread));
    }
  }
  std::ranges::sort(threads);
  return threads;
}

std::string ThreadText(pid_t pid, int thread) {
  const fs::path folder = fmt::format("/proc/{}/task/{}", pid, thread);
  const std::string status = Read(folder / "status");
  const std::string wait = Read(folder / "wchan");
  std::string text =
      fmt::format("{} {}: {}", Field(status, "Name"), thread, Field(status, "State"));
  if (!wait.empty() && wait != "0") {
    text += fmt::format(", waits in {}", wait);
  }
  for (const std::string& line : Split(Read(folder / "stack"), '\n')) {
    if (!Trim(line).empty()) {
      text += fmt::format("\n    {}", Trim(line));
    }
  }
  return text + "\n";
}

}  // namespace

std::string DescribeThreads(pid_t pid) {
  const std::string status = Read(fmt::format("/proc/{}/status", pid));
  if (status.empty()) {
    return "the process has ended\n";
  }
  const std::vector<int> threads = ThreadsOf(pid);
  std::string text =
      fmt::format("{} threads, {} resident\n", threads.size(), Field(status, "VmRSS"));
  for (size_t i = 0; i < std::min(threads.size(), kMostThreads); ++i) {
    text += "  " + ThreadText(pid, threads[i]);
  }
  return text;
}

}  // namespace lr::launcher
