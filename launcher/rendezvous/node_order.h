#pragma once
/// (pure) Which node becomes node rank 0, 1, … of an epoch. Called by the run machine when
/// the members are complete; never fails: unusable explicit ranks are ignored with a warning here
/// and refused earlier, at the join, where they are binding (join_check.h).

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lr::launcher {

struct OrderCandidate {
  std::optional<int> node_rank;  ///< explicit --node-rank
  bool serves = false;           ///< this node serves the endpoint
  std::string host_name;
  int join_order = 0;
  std::optional<int> scheduler_index = {};
  std::optional<int> last_rank = {};  ///< in the epoch before; survivors keep it if possible
};

struct NodeOrder {
  std::vector<size_t> order;  ///< order[node rank] = index of the candidate
  std::string reason;         ///< which rule decided, in words
  std::string warning;        ///< explicit ranks that were ignored; empty: none
};

NodeOrder OrderNodes(const std::vector<OrderCandidate>& candidates);

/// "node2" < "node10": runs of digits compare as numbers of any length, everything else as bytes.
bool NaturalLess(std::string_view left, std::string_view right);

}  // namespace lr::launcher
