#pragma once
/// (pure) May this node join this run (R-4, R-5, R-12, R-22, R-24, spec 3.6)? Called by the run
/// machine for every Hello; the answer names who, what, the value and the limit. A refusal never
/// disturbs the members.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/run_policy.h"
#include "launcher/rendezvous/messages.h"

namespace lr::launcher {

inline constexpr int kMaxNodes = 16'384;
inline constexpr int kMaxRanks = 131'072;  ///< of a run (R-53)

/// What the host decided for its run before anybody joined.
struct RunRules {
  std::string run_id;  ///< empty: no identity given (R-11)
  int min_nodes = 1;
  int max_nodes = 1;  ///< equal to min_nodes: a run of fixed size
  /// Node ranks are binding (static rendezvous): missing, double or out of range is refused.
  bool strict_ranks = false;
  bool native = false;          ///< the workers speak worker.proto
  std::string output_dir = {};  ///< of the workers, by the command line; empty: not known there
  RunPolicy policy = {};
  uint32_t seed = 1;  ///< of the jitter between restarts
};

/// Nodes that may be connected at once, spares included.
int Capacity(const RunRules& rules);

/// "host-a (pid 17)".
std::string DescribeNode(const NodeIdentity& node);

/// nullopt: welcome. `members` are those of the run now, in join order.
std::optional<Refused> CheckJoin(const Hello& hello,
                                 const std::vector<const NodeIdentity*>& members,
                                 const RunRules& rules);

}  // namespace lr::launcher
