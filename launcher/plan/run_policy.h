#pragma once
/// (pure) By which rules a run of several epochs goes on: restarts, growth, spares, waiting times.
/// Options of every node's command line; the host's are the ones that act, and the nodes compare
/// those that people would want equal (plan_digest.h).

#include <chrono>
#include <optional>

namespace lr::launcher {

/// S-40, S-42.
struct RestartRules {
  int max_restarts = 0;                ///< after failures of the program, for the whole run
  std::optional<int> max_node_losses;  ///< nullopt: as many as spares and the minimum allow
  bool always = false;                 ///< --always-restart: also when it promises nothing
};

struct RunPolicy {
  RestartRules restarts;
};

}  // namespace lr::launcher
