#pragma once
/// (pure) Ranks in words.

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace lr::launcher {

/// "0-2,5" for {0, 1, 2, 5}.
inline std::string RankList(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) {
      ++end;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (end > i) {
      text += fmt::format("-{}", ranks[end]);
    }
    i = end + 1;
  }
  return text;
}

/// "rank 3" or "ranks 0-2,5".
inline std::string RanksText(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", RankList(ranks));
}

}  // namespace lr::launcher
