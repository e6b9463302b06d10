#include "launcher/plan/straggler.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/rank_list.h"

namespace lr::launcher {
namespace {

constexpr double kThreshold = 0.75;
constexpr int64_t kFewestSteps = 20;
constexpr double kNoticeable = 0.05;  ///< of a step: less is noise, whatever the ratio
constexpr size_t kMostTold = 16;

/// Of one step, in milliseconds.
struct OwnTime {
  double data = 0;
  double forward = 0;
  double optimizer = 0;

  double all() const { return data + forward + optimizer; }
};

double Milliseconds(std::chrono::microseconds span) {
  return static_cast<double>(span.count()) / 1000.0;
}

OwnTime OwnTimeOf(const RankPace& pace) {
  const auto steps = static_cast<double>(pace.steps);
  return {Milliseconds(pace.data) / steps,
          Milliseconds(pace.forward) / steps,
          Milliseconds(pace.optimizer) / steps};
}

/// The phase in which it loses most against the fastest.
std::string WorstPhase(const OwnTime& own, const OwnTime& fastest) {
  const std::array<std::pair<double, std::string>, 3> losses = {
      {{own.data - fastest.data,
        fmt::format("data {:.1f} ms instead of {:.1f}", own.data, fastest.data)},
       {own.forward - fastest.forward,
        fmt::format("forward {:.1f} ms instead of {:.1f}", own.forward, fastest.forward)},
       {own.optimizer - fastest.optimizer,
        fmt::format("optimizer {:.1f} ms instead of {:.1f}", own.optimizer, fastest.optimizer)}}};
  return std::ranges::max_element(losses, {}, [](const auto& loss) { return loss.first; })->second;
}

std::optional<SlowRank> AgainstOthers(const RankPace& pace, const OwnTime& fastest) {
  const OwnTime own = OwnTimeOf(pace);
  const double step = Milliseconds(pace.step_median);
  if (own.all() <= 0 || own.all() - fastest.all() < kNoticeable * step) {
    return std::nullopt;
  }
  const double score = fastest.all() / own.all();
  if (score >= kThreshold) {
    return std::nullopt;
  }
  return SlowRank{pace.rank,
                  score,
                  fmt::format("needs {:.1f} ms of each step for itself, the fastest {:.1f} ms: {}",
                              own.all(),
                              fastest.all(),
                              WorstPhase(own, fastest))};
}

std::optional<SlowRank> AgainstItself(const RankPace& pace) {
  const double now = Milliseconds(pace.step_median);
  const double best = Milliseconds(pace.best_median);
  const double score = now > 0 && best > 0 ? best / now : 1.0;
  if (score >= kThreshold) {
    return std::nullopt;
  }
  return SlowRank{
      pace.rank, score, fmt::format("steps take {:.1f} ms, {:.1f} ms at its best", now, best)};
}

/// Nodes all of whose ranks are slow, where others are not.
std::string SlowNodes(const std::vector<RankPace>& paces, const std::vector<SlowRank>& slow) {
  struct Node {
    std::string host;
    int ranks = 0;
    int slow = 0;
  };

  std::map<int, Node> nodes;
  for (const RankPace& pace : paces) {
    Node& node = nodes[pace.node_rank];
    node.host = pace.host;
    ++node.ranks;
    node.slow += std::ranges::find(slow, pace.rank, &SlowRank::rank) != slow.end() ? 1 : 0;
  }
  std::vector<std::string> names;
  for (const auto& [rank, node] : nodes) {
    if (node.slow == node.ranks) {
      names.push_back(fmt::format("node {} ({})", rank, node.host));
    }
  }
  if (names.empty() || names.size() == nodes.size()) {
    return "";
  }
  return fmt::format("\nall ranks of {} are slow", Join(names, ", "));
}

std::string Whereabouts(const std::vector<RankPace>& paces, int rank) {
  const auto pace = std::ranges::find(paces, rank, &RankPace::rank);
  return fmt::format("rank {} (node {}, {})", rank, pace->node_rank, pace->host);
}

}  // namespace

StragglerReport FindStragglers(const std::vector<RankPace>& all) {
  std::vector<RankPace> paces;
  std::ranges::copy_if(
      all, std::back_inserter(paces), [](const RankPace& p) { return p.steps >= kFewestSteps; });
  StragglerReport report;
  if (paces.empty()) {
    report.text = fmt::format("no rank has timed {} steps yet", kFewestSteps);
    return report;
  }
  OwnTime fastest;
  for (const RankPace& pace : paces) {
    const OwnTime own = OwnTimeOf(pace);
    const bool told = own.all() > 0;
    fastest = told && (fastest.all() == 0 || own.all() < fastest.all()) ? own : fastest;
  }
  for (const RankPace& pace : paces) {
    const auto relative = AgainstOthers(pace, fastest);
    const auto individual = AgainstItself(pace);
    if (relative || individual) {
      SlowRank slow = relative ? *relative : *individual;
      if (relative && individual) {
        slow.score = std::min(slow.score, individual->score);
        slow.reason += "; " + individual->reason;
      }
      report.slow.push_back(std::move(slow));
    }
  }
  std::ranges::stable_sort(report.slow, {}, &SlowRank::score);
  report.text =
      report.slow.empty()
          ? fmt::format("no straggler among {} ranks", paces.size())
          : fmt::format("{} of {} ranks below {}", report.slow.size(), paces.size(), kThreshold);
  for (size_t i = 0; i < std::min(report.slow.size(), kMostTold); ++i) {
    const SlowRank& slow = report.slow[i];
    report.text +=
        fmt::format("\n{}: {:.2f}, {}", Whereabouts(paces, slow.rank), slow.score, slow.reason);
  }
  report.text += SlowNodes(paces, report.slow);
  return report;
}

}  // namespace lr::launcher
