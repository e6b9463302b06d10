#include "launcher/cli/host_list.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

constexpr size_t kLongestNumber = 18;  // digits
constexpr size_t kLongestName = 255;   // of a host

Status Unreadable(std::string_view item, std::string_view why) {
  return InvalidArgument("'{}' is no host list of Slurm: {}", item.substr(0, 80), why);
}

/// Cuts at commas outside of brackets.
Result<std::vector<std::string_view>> SplitItems(std::string_view text) {
  std::vector<std::string_view> items;
  size_t start = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == ']') {
      if (inside == (c == '[')) {
        return Unreadable(text, inside ? "a bracket inside a bracket" : "']' without '['");
      }
      inside = c == '[';
    } else if (c == ',' && (!inside || i == text.size())) {
      if (inside) {
        return Unreadable(text.substr(start), "'[' without ']'");
      }
      items.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return items;
}

/// "07" or "01-03" into numbers of the width written.
Status AppendRange(std::string_view range, std::vector<std::string>& numbers) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const std::optional<int64_t> first = ParseInt(low);
  const std::optional<int64_t> last = ParseInt(high);
  const bool digits = !range.empty() && low.size() <= kLongestNumber &&
                      high.size() <= kLongestNumber && first && last && *first >= 0 &&
                      range.find_first_not_of("0123456789-") == std::string_view::npos;
  if (!digits || *last < *first) {
    return Unreadable(range, "not N or LOW-HIGH");
  }
  if (static_cast<size_t>(*last - *first) >= kMostHosts - std::min(kMostHosts, numbers.size())) {
    return Unreadable(range, fmt::format("more than {} hosts", kMostHosts));
  }
  for (int64_t number = *first; number <= *last; ++number) {
    numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }
  return {};
}

Result<std::vector<std::string>> ExpandBracket(std::string_view inside) {
  std::vector<std::string> numbers;
  for (const std::string& range : Split(inside, ',')) {
    LR_TRY(AppendRange(range, numbers));
  }
  return numbers;
}

/// One name with any number of brackets; the last one counts fastest, as Slurm does.
Result<std::vector<std::string>> ExpandItem(std::string_view item) {
  std::vector<std::string> names = {""};
  std::string_view rest = item;
  while (!rest.empty()) {
    const size_t open = std::min(rest.find('['), rest.size());
    std::vector<std::string> numbers = {""};
    const std::string_view plain = rest.substr(0, open);
    rest.remove_prefix(open);
    if (!rest.empty()) {
      const size_t close = rest.find(']');  // SplitItems() saw that it is there
      LR_ASSIGN(numbers, ExpandBracket(rest.substr(1, close - 1)));
      rest.remove_prefix(close + 1);
    }
    if (names.size() * numbers.size() > kMostHosts) {
      return Unreadable(item, fmt::format("more than {} hosts", kMostHosts));
    }
    if (names.front().size() + plain.size() + numbers.front().size() > kLongestName) {
      return Unreadable(item, fmt::format("a name longer than {} characters", kLongestName));
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) {
        longer.push_back(fmt::format("{}{}{}", name, plain, number));
      }
    }
    names = std::move(longer);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> ExpandHostList(std::string_view text) {
  LR_ASSIGN(const std::vector<std::string_view> items, SplitItems(text));
  std::vector<std::string> hosts;
  for (const std::string_view item : items) {
    if (Trim(item).empty()) {
      return Unreadable(text, "an empty name");
    }
    LR_ASSIGN(std::vector<std::string> names, ExpandItem(Trim(item)));
    if (hosts.size() + names.size() > kMostHosts) {
      return Unreadable(text, fmt::format("more than {} hosts", kMostHosts));
    }
    std::ranges::move(names, std::back_inserter(hosts));
  }
  return hosts;
}

}  // namespace lr::launcher
