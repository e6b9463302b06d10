#include "launcher/cli/log_options.h"

#include <utility>

#include "common/base/text.h"
#include "launcher/cli/option_values.h"

namespace lr::launcher {
namespace {

constexpr int kMaxLocalRank = 131'071;
constexpr int kMostKeptFiles = 1000;

/// The range of ranks "3" or "0-7".
Result<std::pair<int, int>> ReadRange(const std::string& text, const std::string& spelled) {
  const std::vector<std::string> ends = Split(text, '-');
  const std::optional<int64_t> first = ParseInt(ends.front());
  const std::optional<int64_t> last = ParseInt(ends.back());
  if (ends.size() > 2 || !first || !last || *first < 0 || *last < *first || *last > kMaxLocalRank) {
    return InvalidArgument("{}: '{}' is neither a rank nor a range FIRST-LAST", spelled, text);
  }
  return std::pair(static_cast<int>(*first), static_cast<int>(*last));
}

Result<int> ReadBits(const std::string& text, const std::string& spelled) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') {
    return InvalidArgument(
        "{}: must be 0 (none), 1 (stdout), 2 (stderr), 3 (both), or a list like 0:3,1-7:2,*:1",
        spelled);
  }
  return text[0] - '0';
}

/// What the prefix of console lines looks like: an option, else a variable that Python's launcher
/// knows, else torchrun's form.
Status ReadPrefix(const CommandLine& line, const EnvironmentReader& environment, LogPlan& plan) {
  const std::string shape = line.text(Option::kLogPrefix);
  LR_TRY(CheckWord(shape, line.spelled(Option::kLogPrefix), {"teed", "role", "node-rank"}));
  plan.prefix_untouched = shape != "teed";
  const auto inherited = environment("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (const std::string given = line.text(Option::kLogLinePrefixTemplate); !given.empty()) {
    plan.prefix_template = given;
  } else if (shape == "node-rank") {
    plan.prefix_template = "${host}:${rank}: ";
  } else if (shape == "teed" && inherited && !inherited->empty()) {
    plan.prefix_template = *inherited;
  }
  if (plan.prefix_template.find_first_of("\r\n") != std::string::npos) {
    return InvalidArgument("{}: must be on one line", line.spelled(Option::kLogLinePrefixTemplate));
  }
  return {};
}

}  // namespace

Result<StreamChoice> ReadStreamChoice(const std::string& text, const std::string& spelled) {
  StreamChoice choice;
  if (text.find(':') == std::string::npos) {
    LR_ASSIGN(choice.others, ReadBits(text, spelled));
    return choice;
  }
  for (const std::string& part : Split(text, ',')) {
    const size_t colon = part.find(':');
    LR_ASSIGN(const int bits,
              ReadBits(colon == std::string::npos ? "" : part.substr(colon + 1), spelled));
    const std::string ranks = part.substr(0, colon);
    if (ranks == "*") {
      choice.others = bits;
      continue;
    }
    LR_ASSIGN(const auto range, ReadRange(ranks, spelled));
    for (int rank = range.first; rank <= range.second; ++rank) {
      choice.of_rank[rank] = bits;
    }
  }
  return choice;
}

Result<std::set<int>> ReadRankSet(const std::string& text, const std::string& spelled) {
  std::set<int> ranks;
  if (text.empty()) {
    return ranks;
  }
  for (const std::string& part : Split(text, ',')) {
    LR_ASSIGN(const auto range, ReadRange(std::string(Trim(part)), spelled));
    for (int rank = range.first; rank <= range.second; ++rank) {
      ranks.insert(rank);
    }
  }
  return ranks;
}

std::vector<std::string> ReadFilters(const std::string& text) {
  std::vector<std::string> filters(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      filters.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      filters.back() += ',';
      ++i;
    } else {
      filters.emplace_back();
    }
  }
  std::erase(filters, "");
  return filters;
}

Result<uint64_t> ReadByteSize(const std::string& text, const std::string& spelled) {
  constexpr std::string_view kUnits = "KMG";
  const size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  const bool has_unit = unit != std::string_view::npos;
  const std::optional<int64_t> number = ParseInt(text.substr(0, text.size() - (has_unit ? 1 : 0)));
  constexpr int64_t kMost = int64_t{1} << 30;
  if (!number || *number < 0 || *number > kMost) {
    return InvalidArgument("{}: must be a number of bytes, with K, M or G: 100M", spelled);
  }
  return static_cast<uint64_t>(*number) << (has_unit ? 10 * (unit + 1) : 0);
}

Result<LogPlan> ReadLogPlan(const CommandLine& line, const EnvironmentReader& environment) {
  LogPlan plan;
  const auto text = [&](Option option) { return line.text(option); };
  const auto spelled = [&](Option option) { return line.spelled(option); };
  LR_ASSIGN(plan.redirects,
            ReadStreamChoice(text(Option::kRedirects), spelled(Option::kRedirects)));
  LR_ASSIGN(plan.tee, ReadStreamChoice(text(Option::kTee), spelled(Option::kTee)));
  LR_TRY(ReadPrefix(line, environment, plan));
  LR_ASSIGN(plan.local_ranks_filter,
            ReadRankSet(text(Option::kLocalRanksFilter), spelled(Option::kLocalRanksFilter)));
  LR_ASSIGN(plan.ranks_filter,
            ReadRankSet(text(Option::kRanksFilter), spelled(Option::kRanksFilter)));
  plan.stdout_filters = ReadFilters(text(Option::kDuplicateStdoutFilters));
  plan.stderr_filters = ReadFilters(text(Option::kDuplicateStderrFilters));
  LR_ASSIGN(plan.max_file_bytes,
            ReadByteSize(text(Option::kLogMaxSize), spelled(Option::kLogMaxSize)));
  LR_ASSIGN(plan.kept_files,
            ReadWhole(text(Option::kLogKeep), spelled(Option::kLogKeep), 1, kMostKeptFiles));
  plan.discard = text(Option::kLogDir) == "/dev/null";
  plan.tty = line.flag(Option::kTty);
  return plan;
}

}  // namespace lr::launcher
