#include "launcher/plan/stream_output.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

bool ShownOnConsole(const LogPlan& plan, const WorkerName& worker) {
  const auto passes = [](const std::set<int>& filter, int rank) {
    return filter.empty() || filter.contains(rank);
  };
  return passes(plan.local_ranks_filter, worker.local_rank) &&
         passes(plan.ranks_filter, worker.rank);
}

std::optional<std::string> Value(std::string_view name, const WorkerName& worker) {
  if (name == "role_name") {
    return worker.role;
  }
  if (name == "rank") {
    return std::to_string(worker.rank);
  }
  if (name == "local_rank") {
    return std::to_string(worker.local_rank);
  }
  if (name == "node_rank") {
    return std::to_string(worker.node_rank);
  }
  if (name == "hostname" || name == "host") {
    return worker.host_name;
  }
  return std::nullopt;
}

/// A '$' and what belongs to it: "$$", "$name" or "${name}"; otherwise the '$' alone.
struct Placeholder {
  size_t size = 1;
  std::string_view name;
};

Placeholder ReadPlaceholder(std::string_view text) {
  if (text.size() > 1 && text[1] == '$') {
    return {.size = 2, .name = "$"};
  }
  const bool braces = text.size() > 1 && text[1] == '{';
  const size_t start = braces ? 2 : 1;
  size_t end = start;
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) {
    ++end;
  }
  if (braces && (end >= text.size() || text[end] != '}')) {
    return {};
  }
  return {.size = braces ? end + 1 : end, .name = text.substr(start, end - start)};
}

bool Any(const StreamChoice& choice) {
  return choice.others != 0 ||
         std::ranges::any_of(choice.of_rank, [](const auto& entry) { return entry.second != 0; });
}

}  // namespace

std::string FillPrefix(const std::string& prefix_template, const WorkerName& worker) {
  std::string_view rest = prefix_template;
  std::string text;
  while (true) {
    const size_t dollar = rest.find('$');
    text += rest.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      return text;
    }
    rest.remove_prefix(dollar);
    const Placeholder found = ReadPlaceholder(rest);
    if (found.name == "$") {
      text += '$';
    } else {
      text += Value(found.name, worker).value_or(std::string(rest.substr(0, found.size)));
    }
    rest.remove_prefix(found.size);
  }
}

bool WantsLogFiles(const LogPlan& plan) {
  return Any(plan.redirects) || Any(plan.tee) || !plan.stdout_filters.empty() ||
         !plan.stderr_filters.empty();
}

StreamOutput PlanStreamOutput(const LogPlan& plan,
                              WorkerStream stream,
                              const WorkerName& worker,
                              const std::string& attempt_dir) {
  const bool teed = plan.tee.Covers(worker.local_rank, stream);
  const bool redirected = plan.redirects.Covers(worker.local_rank, stream);
  const std::string name = stream == WorkerStream::kOut ? "stdout" : "stderr";
  const std::string prefix = FillPrefix(plan.prefix_template, worker);
  StreamOutput output;
  const bool file_is_missing = attempt_dir.empty() && !plan.discard;
  output.to_console = (teed || !redirected || file_is_missing) && ShownOnConsole(plan, worker);
  output.prefix = teed || plan.prefix_untouched ? prefix : "";
  output.whole_lines = !worker.alone || !output.prefix.empty();
  if (attempt_dir.empty()) {
    return output;
  }
  if (teed || redirected) {
    output.file = fmt::format("{}/{}/{}.log", attempt_dir, worker.local_rank, name);
  }
  output.filters = stream == WorkerStream::kOut ? plan.stdout_filters : plan.stderr_filters;
  if (!output.filters.empty()) {
    output.filtered_file = fmt::format("{}/filtered_{}.log", attempt_dir, name);
    output.filtered_prefix = prefix;
  }
  return output;
}

}  // namespace lr::launcher
