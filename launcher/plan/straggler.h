#pragma once
/// (pure) Which ranks are slow (S-25). All ranks of a step take equally long, because they wait for
/// each other; so they are compared by the time that each needs for itself (data, forward,
/// optimizer: no collective waits there), and each with its own best. Called by the host of a run,
/// every 5 minutes and on request. Never acts. Cannot fail.

#include <chrono>
#include <string>
#include <vector>

namespace lr::launcher {

/// One rank over the window.
struct RankPace {
  int rank = 0;
  int node_rank = 0;
  std::string host;
  int64_t steps = 0;                         ///< in the window
  std::chrono::microseconds step_median{0};  ///< of the newest steps
  std::chrono::microseconds best_median{0};  ///< the smallest it ever had
  std::chrono::microseconds data{0};         ///< of the whole window, as the next two
  std::chrono::microseconds forward{0};
  std::chrono::microseconds optimizer{0};
};

struct SlowRank {
  int rank = 0;
  double score = 1.0;  ///< fastest / own, or own best / own now
  std::string reason;  ///< in words
};

struct StragglerReport {
  std::vector<SlowRank> slow;  ///< worst first
  std::string text;            ///< the whole report, several lines, without a newline at the end
};

StragglerReport FindStragglers(const std::vector<RankPace>& paces);

}  // namespace lr::launcher
