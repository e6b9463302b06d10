#include "launcher/plan/first_failure.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

struct Pattern {
  std::string_view text;  ///< searched in the message and the last lines
  std::string_view label;
  bool secondary = false;
};

// Most specific first: the first pattern of the list that occurs anywhere decides.
constexpr std::array kPatterns = std::to_array<Pattern>({
    {"CUDA out of memory", "out of device memory"},
    {"HIP out of memory", "out of device memory"},
    {"OutOfMemoryError", "out of device memory"},
    {"std::bad_alloc", "out of host memory"},
    {"MemoryError", "out of host memory"},
    {"Cannot allocate memory", "out of host memory"},
    {"No space left on device", "no space left on device"},
    {"Disk quota exceeded", "disk quota exceeded"},
    {"ModuleNotFoundError", "import error"},
    {"ImportError", "import error"},
    {"error while loading shared libraries", "missing shared library"},
    {"SyntaxError", "syntax error"},
    {"IndentationError", "syntax error"},
    {"Address already in use", "port in use"},
    {"EADDRINUSE", "port in use"},
    {"CERTIFICATE_VERIFY_FAILED", "certificate error"},
    {"401 Client Error", "authorization error"},
    {"403 Client Error", "authorization error"},
    {"Watchdog caught collective operation timeout", "collective time-out", true},
    {"ncclRemoteError", "peer lost", true},
    {"Connection reset by peer", "peer lost", true},
    {"Connection closed by peer", "peer lost", true},
    {"Connection closed by remote peer", "peer lost", true},
    {"peer lost", "peer lost", true},
    {"device-side assert triggered", "device error"},
    {"CUDA error", "device error"},
    {"HIP error", "device error"},
    {"FileNotFoundError", "missing file"},
    {"No such file or directory", "missing file"},
    {"PermissionError", "permission denied"},
    {"Permission denied", "permission denied"},
});

constexpr int64_t kUsageErrorUptimeNs = 10'000'000'000;  // S-13: exit 2 within 10 s

std::optional<FailureLabel> LabelFromText(const WorkerEnding& ending) {
  for (const Pattern& pattern : kPatterns) {
    if (ending.message.find(pattern.text) != std::string::npos) {
      return FailureLabel{std::string(pattern.label), ending.message, pattern.secondary};
    }
    const auto line = std::find_if(
        ending.last_lines.rbegin(), ending.last_lines.rend(), [&](const std::string& text) {
          return text.find(pattern.text) != std::string::npos;
        });
    if (line != ending.last_lines.rend()) {
      return FailureLabel{std::string(pattern.label), *line, pattern.secondary};
    }
  }
  return std::nullopt;
}

std::optional<FailureLabel> LabelFromSignal(const WorkerEnding& ending) {
  switch (ending.signal) {
    case SIGKILL:
      return FailureLabel{"killed by an unknown sender", "SIGKILL that this launcher did not send"};
    case SIGILL:
      return FailureLabel{"illegal instruction", "SIGILL: built for another processor?"};
    case SIGBUS:
      return FailureLabel{"bus error",
                          "SIGBUS: memory-mapped file cut short, or shared memory full?"};
    case SIGSEGV:
      return FailureLabel{"segmentation fault", "SIGSEGV"};
    case SIGABRT:
      return FailureLabel{"aborted", "SIGABRT"};
    default:
      return std::nullopt;
  }
}

bool IsUsageError(const WorkerEnding& ending) {
  const auto is_usage = [](const std::string& line) {
    return line.starts_with("usage:") || line.starts_with("Usage:");
  };
  return ending.exit_code == 2 && ending.end_unix_ns - ending.start_unix_ns < kUsageErrorUptimeNs &&
         std::ranges::any_of(ending.last_lines, is_usage);
}

bool FailedByItself(const WorkerEnding& ending) {
  return !ending.succeeded() && !ending.stopped_by_us;
}

std::string Who(const WorkerEnding& ending) {
  return fmt::format("rank {} (node {}, {}, local rank {})",
                     ending.rank,
                     ending.node_rank,
                     ending.host_name,
                     ending.local_rank);
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string DescribeEnding(const WorkerEnding& ending) {
  if (ending.signal == 0) {
    return fmt::format("exit code {}", ending.exit_code);
  }
  return fmt::format("signal {} ({}){}",
                     ending.signal,
                     SignalName(ending.signal),
                     ending.core_dumped ? ", core dumped" : "");
}

FailureLabel LabelFailure(const WorkerEnding& ending) {
  if (ending.succeeded()) {
    return {};
  }
  if (IsUsageError(ending)) {
    return {"usage error of the program", DescribeEnding(ending)};
  }
  if (std::optional<FailureLabel> label = LabelFromText(ending)) {
    return *std::move(label);
  }
  return LabelFromSignal(ending).value_or(FailureLabel{});
}

FirstFailure ChooseFirstFailure(std::vector<WorkerEnding> endings) {
  std::ranges::stable_sort(endings, {}, &WorkerEnding::end_unix_ns);
  FirstFailure result;
  std::optional<WorkerEnding> first_secondary;
  for (const WorkerEnding& ending : endings) {
    if (ending.succeeded()) {
      continue;
    }
    result.failures.push_back(ending);
    if (!FailedByItself(ending)) {
      continue;
    }
    if (!LabelFailure(ending).secondary) {
      if (!result.root_cause) {
        result.root_cause = ending;
      }
    } else if (!first_secondary) {
      first_secondary = ending;
    }
  }
  result.only_secondary = !result.root_cause && first_secondary;
  if (result.only_secondary) {
    result.root_cause = first_secondary;
  }
  if (!result.root_cause) {
    result.reason = "no worker failed by itself";
  } else {
    result.reason = fmt::format("{} ended with {}{}",
                                Who(*result.root_cause),
                                DescribeEnding(*result.root_cause),
                                result.only_secondary ? "; the first cause was not seen" : "");
  }
  return result;
}

}  // namespace lr::launcher
