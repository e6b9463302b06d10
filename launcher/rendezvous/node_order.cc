#include "launcher/rendezvous/node_order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes the run of digits at the front of `text`, without leading zeros.
std::string_view TakeNumber(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

/// Explicit ranks count when every node gave one and they are exactly 0 … n-1.
bool ExplicitRanksUsable(const std::vector<OrderCandidate>& candidates) {
  std::vector<bool> taken(candidates.size(), false);
  for (const OrderCandidate& candidate : candidates) {
    const int rank = candidate.node_rank.value_or(-1);
    if (rank < 0 || rank >= static_cast<int>(taken.size()) || taken[static_cast<size_t>(rank)]) {
      return false;
    }
    taken[static_cast<size_t>(rank)] = true;
  }
  return true;
}

/// The scheduler's numbers count when every node has one and no two are the same.
bool SchedulerIndicesUsable(const std::vector<OrderCandidate>& candidates) {
  std::set<int> taken;
  return std::ranges::all_of(candidates, [&](const OrderCandidate& candidate) {
    return candidate.scheduler_index && taken.insert(*candidate.scheduler_index).second;
  });
}

/// By the scheduler's numbers, else the node at the endpoint first, then by host name, then by
/// arrival. Returns which of them it was.
std::string SortNaturally(std::vector<size_t>& order,
                          const std::vector<OrderCandidate>& candidates) {
  if (SchedulerIndicesUsable(candidates)) {
    std::ranges::sort(order, {}, [&](size_t i) { return *candidates[i].scheduler_index; });
    return "the scheduler's numbers";
  }
  std::ranges::sort(order, [&](size_t i, size_t j) {
    const OrderCandidate& a = candidates[i];
    const OrderCandidate& b = candidates[j];
    if (a.serves != b.serves) {
      return a.serves;
    }
    if (NaturalLess(a.host_name, b.host_name) || NaturalLess(b.host_name, a.host_name)) {
      return NaturalLess(a.host_name, b.host_name);
    }
    return a.join_order < b.join_order;
  });
  return "the node at the endpoint first, then by host name, then by arrival";
}

/// Survivors of an epoch keep their relative order and, where possible, their rank; `order`, sorted
/// for newcomers, fills the holes and then the end.
void KeepSurvivors(std::vector<size_t>& order, const std::vector<OrderCandidate>& candidates) {
  std::vector<size_t> survivors;
  std::vector<size_t> newcomers;
  for (const size_t index : order) {
    (candidates[index].last_rank ? survivors : newcomers).push_back(index);
  }
  std::ranges::sort(survivors, {}, [&](size_t i) { return *candidates[i].last_rank; });
  const size_t nobody = candidates.size();
  order.assign(candidates.size(), nobody);
  size_t end = candidates.size();  // from the last survivor down, each as high as it may
  for (auto it = survivors.rbegin(); it != survivors.rend(); ++it) {
    end = std::min(static_cast<size_t>(*candidates[*it].last_rank), end - 1);
    order[end] = *it;
  }
  auto next = newcomers.begin();
  for (size_t& place : order) {
    place = place == nobody ? *next++ : place;
  }
}

}  // namespace

bool NaturalLess(std::string_view left, std::string_view right) {
  while (!left.empty() && !right.empty()) {
    if (IsDigit(left.front()) && IsDigit(right.front())) {
      const std::string_view a = TakeNumber(left);
      const std::string_view b = TakeNumber(right);
      if (a != b) {
        return std::tuple(a.size(), a) < std::tuple(b.size(), b);
      }
      continue;
    }
    if (left.front() != right.front()) {
      return left.front() < right.front();
    }
    left.remove_prefix(1);
    right.remove_prefix(1);
  }
  return left.size() < right.size();
}

NodeOrder OrderNodes(const std::vector<OrderCandidate>& candidates) {
  NodeOrder result;
  result.order.resize(candidates.size());
  std::iota(result.order.begin(), result.order.end(), size_t{0});
  if (ExplicitRanksUsable(candidates)) {
    std::ranges::sort(result.order, {}, [&](size_t i) { return *candidates[i].node_rank; });
    result.reason = "explicit node ranks";
    return result;
  }
  const auto given = std::ranges::count_if(
      candidates, [](const OrderCandidate& candidate) { return candidate.node_rank.has_value(); });
  result.reason = SortNaturally(result.order, candidates);
  if (std::ranges::any_of(candidates, [](const auto& c) { return c.last_rank.has_value(); })) {
    KeepSurvivors(result.order, candidates);
    result.reason = "the ranks of the epoch before, newcomers in the holes";
    return result;
  }
  if (given > 0) {
    result.warning =
        fmt::format("the explicit node ranks are not 0 to {} once each, so they are ignored",
                    candidates.size() - 1);
  }
  return result;
}

}  // namespace lr::launcher
