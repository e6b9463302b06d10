#include "launcher/plan/failure_label.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/text.h"

namespace lr::launcher {
namespace {

struct LabelRow {
  std::string_view name;
  bool secondary = false;
  std::string_view advice;
};

struct PatternRow {
  std::string_view label;
  std::string_view text;
};

constexpr std::array kLabels = std::to_array<LabelRow>({
#define LR_LABEL(label, secondary, advice) {label, secondary, advice},
#define LR_PATTERN(label, text, sample)
#include "launcher/plan/failure_patterns.def"
#undef LR_LABEL
#undef LR_PATTERN
});

constexpr std::array kPatterns = std::to_array<PatternRow>({
#define LR_LABEL(label, secondary, advice)
#define LR_PATTERN(label, text, sample) {label, text},
#include "launcher/plan/failure_patterns.def"
#undef LR_LABEL
#undef LR_PATTERN
});

constexpr int64_t kUsageErrorUptimeNs = 10'000'000'000;  // S-13: exit 2 within 10 s

FailureLabel Label(std::string_view name, std::string evidence) {
  const auto* row = std::ranges::find(kLabels, name, &LabelRow::name);
  LR_CHECK(row != kLabels.end(), "label '{}' has no row in failure_patterns.def", name);
  return {.name = std::string(name),
          .evidence = std::move(evidence),
          .secondary = row->secondary,
          .advice = std::string(row->advice)};
}

/// The last line of a stack trace is what was raised.
std::string LastLine(const std::string& text) {
  return std::string(Trim(Split(Trim(text), '\n').back()));
}

FailureLabel LabelOfPattern(const PatternRow& pattern,
                            const WorkerEnding& ending,
                            const std::string& line) {
  if (pattern.label == "helper process killed" && !ending.kernel_evidence.empty()) {
    return Label("helper process killed by the kernel for lack of memory",
                 fmt::format("{}; {}", line, ending.kernel_evidence));
  }
  return Label(pattern.label, line);
}

std::optional<FailureLabel> LabelFromText(const WorkerEnding& ending) {
  for (const PatternRow& pattern : kPatterns) {
    if (ending.message.find(pattern.text) != std::string::npos) {
      return LabelOfPattern(pattern, ending, LastLine(ending.message));
    }
    const auto line = std::find_if(
        ending.last_lines.rbegin(), ending.last_lines.rend(), [&](const std::string& text) {
          return text.find(pattern.text) != std::string::npos;
        });
    if (line != ending.last_lines.rend()) {
      return LabelOfPattern(pattern, ending, std::string(Trim(*line)));
    }
  }
  return std::nullopt;
}

/// Signals that say more than anything the program wrote before.
std::optional<FailureLabel> LabelFromSender(const WorkerEnding& ending) {
  if (ending.stopped_by_us) {
    return std::nullopt;
  }
  const bool seen = !ending.kernel_evidence.empty();
  switch (ending.signal) {
    case SIGKILL:
      return seen ? Label("killed by the kernel for lack of memory", ending.kernel_evidence)
                  : Label("killed by an unknown sender",
                          "SIGKILL that this launcher did not send; no sign of a lack of memory");
    case SIGILL:
      return Label("illegal instruction", "SIGILL: built for another processor?");
    case SIGBUS:
      return seen ? Label("bus error, shared memory full", ending.kernel_evidence)
                  : Label("bus error", "SIGBUS; /dev/shm was not full");
    default:
      return std::nullopt;
  }
}

std::optional<FailureLabel> LabelFromCrash(const WorkerEnding& ending) {
  switch (ending.signal) {
    case SIGSEGV:
      return Label("segmentation fault", "SIGSEGV");
    case SIGABRT:
      return Label("aborted", "SIGABRT");
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
  if (std::optional<FailureLabel> label = LabelFromSender(ending)) {
    return *std::move(label);
  }
  if (IsUsageError(ending)) {
    return Label("usage error of the program",
                 fmt::format("{}, after: {}", DescribeEnding(ending), ending.last_lines.back()));
  }
  if (std::optional<FailureLabel> label = LabelFromText(ending)) {
    return *std::move(label);
  }
  return LabelFromCrash(ending).value_or(FailureLabel{});
}

}  // namespace lr::launcher
