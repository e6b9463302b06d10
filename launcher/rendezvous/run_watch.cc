#include "launcher/rendezvous/run_watch.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/rank_list.h"

namespace lr::launcher {
namespace {

constexpr int64_t kStepsForMedian = 20;

double Seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

std::chrono::microseconds PhaseSpan(const WorkerBoard& first,
                                    const WorkerBoard& now,
                                    WorkerPhase phase) {
  const auto index = static_cast<size_t>(phase);
  const auto at = [&](const WorkerBoard& board) {
    return index < board.phase_total.size() ? board.phase_total[index]
                                            : std::chrono::microseconds(0);
  };
  return at(now) - at(first);
}

}  // namespace

void RunWatch::Begin(const Assignment& assignment, Instant now) {
  assignment_ = assignment;
  hang_.Begin(assignment, now);
  state_ = State::kQuiet;
  collections_.clear();
  paces_.clear();
  next_stragglers_ = now + kStragglersEvery;
}

void RunWatch::Update(const WorkerBoard& board, Instant now) {
  hang_.Update(board, now);
  const auto [it, first] = paces_.try_emplace(board.rank);
  Pace& pace = it->second;
  if (first) {
    pace.first = board;
  }
  pace.now = board;
  const auto median = board.step_median;
  if (board.steps_timed >= kStepsForMedian && median.count() > 0 &&
      (pace.best_median.count() == 0 || median < pace.best_median)) {
    pace.best_median = median;
  }
}

void RunWatch::Ended(int rank, const std::string& how) {
  hang_.Ended(rank, how);
}

void RunWatch::Pause(Instant span) {
  hang_.Pause(span);
  next_stragglers_ += span;
  for (Collection& collection : collections_) {
    collection.begun += span;
  }
}

// ---- stacks

/// Bounded: those that are wanted find their place in any case.
void RunWatch::Collection::Take(const RankStack& stack) {
  const bool first = wanted.contains(stack.rank);
  if (!first && bytes + stack.text.size() > kMostStackBytes) {
    ++left_out;
    return;
  }
  bytes += stack.text.size();
  stacks.insert(first ? stacks.begin() : stacks.end(), stack);
  while (bytes > kMostStackBytes && stacks.size() > 1) {
    bytes -= stacks.back().text.size();
    stacks.pop_back();
    ++left_out;
  }
}

void RunWatch::Add(int node_rank, const Stacks& stacks) {
  const auto collection = std::ranges::find(collections_, stacks.id, &Collection::id);
  if (collection == collections_.end()) {
    return;  // too late
  }
  for (const RankStack& stack : stacks.ranks) {
    collection->Take(stack);
  }
  if (stacks.last) {
    collection->awaited.erase(node_rank);
  }
}

ControlRequest RunWatch::Collect(std::string id, bool for_hang, std::set<int> wanted, Instant now) {
  Collection& collection = collections_.emplace_back();
  collection.id = std::move(id);
  collection.for_hang = for_hang;
  collection.begun = now;
  collection.wanted = std::move(wanted);
  for (const NodeAssignment& node : assignment_.nodes) {
    collection.awaited.insert(node.node_rank);
  }
  return {.kind = ControlRequest::Kind::kStacks, .id = collection.id};
}

RunWatch::Actions RunWatch::Ask(const ControlRequest& request, Instant now) {
  Actions actions;
  if (request.kind == ControlRequest::Kind::kStragglers) {
    actions.reports.push_back(Stragglers(request.id));
  } else if (collections_.size() >= kMostCollections) {
    actions.reports.push_back(
        {.kind = WatchReport::Kind::kStacks,
         .id = request.id,
         .text = fmt::format("not collected: {} requests are under way (limit {})",
                             collections_.size(),
                             kMostCollections)});
  } else if (std::ranges::find(collections_, request.id, &Collection::id) == collections_.end()) {
    actions.collect =
        Collect(request.id, false, request.rank ? std::set{*request.rank} : std::set<int>(), now);
    actions.collect->rank = request.rank;
  }
  return actions;
}

/// What a reader must know of the stacks that are not there; empty: nothing.
std::string RunWatch::MissingText(const Collection& collection) const {
  std::vector<std::string> parts;
  for (const NodeAssignment& node : assignment_.nodes) {
    if (collection.awaited.contains(node.node_rank)) {
      parts.push_back(fmt::format("node {} ({}) gave no stacks within {} s",
                                  node.node_rank,
                                  node.host_name,
                                  kCollectLimit.count()));
    }
  }
  constexpr size_t kMostNamed = 8;
  if (parts.size() > kMostNamed) {
    parts = {
        fmt::format("{} nodes gave no stacks within {} s", parts.size(), kCollectLimit.count())};
  }
  if (collection.left_out > 0) {
    parts.push_back(fmt::format("stacks of {} more ranks are in the run directories of their nodes",
                                collection.left_out));
  }
  return Join(parts, "\n");
}

void RunWatch::Finish(const Collection& collection,
                      Instant now,
                      int restarts_left,
                      Actions& actions) {
  if (collection.for_hang) {
    return FinishHang(collection, now, restarts_left, actions);
  }
  actions.reports.push_back({.kind = WatchReport::Kind::kStacks,
                             .id = collection.id,
                             .text = MissingText(collection),
                             .ranks = {},
                             .stacks = collection.stacks});
}

// ---- hangs

void RunWatch::FinishHang(const Collection& collection,
                          Instant now,
                          int restarts_left,
                          Actions& actions) {
  const HangVerdict verdict = hang_.Judge(now, true);
  if (verdict.kind != HangVerdict::Kind::kHang) {
    state_ = State::kQuiet;
    actions.reports.push_back({.kind = WatchReport::Kind::kHangOver,
                               .id = collection.id,
                               .text = "no hang: the ranks moved while their stacks were collected",
                               .ranks = {},
                               .stacks = collection.stacks});
    return;
  }
  const HangDecision decision = DecideHang(rules_.action, restarts_left);
  std::vector<std::string> lines = {fmt::format("hang: {}", verdict.text)};
  lines.insert(lines.end(), verdict.places.begin(), verdict.places.end());
  if (const std::string missing = MissingText(collection); !missing.empty()) {
    lines.push_back(missing);
  }
  lines.push_back(decision.reason);
  actions.reports.push_back({.kind = WatchReport::Kind::kHang,
                             .id = collection.id,
                             .text = Join(lines, "\n  "),
                             .ranks = verdict.absent,
                             .stacks = collection.stacks});
  state_ = State::kReported;
  since_ = now;
  if (decision.action != HangAction::kReport) {
    actions.stop = StopOrder{.reason = StopReason::kHang,
                             .text = fmt::format("hang: {}", verdict.text),
                             .signal = SIGTERM};
    actions.final = decision.action == HangAction::kStop;
  }
}

void RunWatch::WatchHang(Instant now, Actions& actions) {
  if (state_ == State::kQuiet) {
    const HangVerdict verdict = hang_.Judge(now, false);
    if (verdict.kind != HangVerdict::Kind::kNone) {
      state_ = State::kCollecting;
      actions.collect = Collect(fmt::format("hang-{}-{}", assignment_.epoch, ++hangs_),
                                true,
                                {verdict.absent.begin(), verdict.absent.end()},
                                now);
    }
  } else if (state_ == State::kReported && hang_.MovedSince(since_)) {
    state_ = State::kQuiet;
    actions.reports.push_back({.kind = WatchReport::Kind::kHangOver,
                               .id = "",
                               .text = fmt::format("the hang is over: ranks move again, {:.1f} s "
                                                   "after it was reported",
                                                   Seconds(now - since_))});
  }
}

// ---- stragglers

WatchReport RunWatch::Stragglers(const std::string& id) const {
  std::vector<RankPace> paces;
  for (const auto& [rank, pace] : paces_) {
    RankPace one{.rank = rank,
                 .node_rank = 0,
                 .host = "",
                 .steps = pace.now.steps_done - pace.first.steps_done,
                 .step_median = pace.now.step_median,
                 .best_median = pace.best_median,
                 .data = PhaseSpan(pace.first, pace.now, WorkerPhase::kData),
                 .forward = PhaseSpan(pace.first, pace.now, WorkerPhase::kForward),
                 .optimizer = PhaseSpan(pace.first, pace.now, WorkerPhase::kOptimizer)};
    if (const NodeAssignment* node = NodeOfRank(assignment_.nodes, rank)) {
      one.node_rank = node->node_rank;
      one.host = node->host_name;
    }
    paces.push_back(std::move(one));
  }
  const StragglerReport found = FindStragglers(paces);
  WatchReport report{.kind = WatchReport::Kind::kStragglers, .id = id, .text = found.text};
  for (const SlowRank& slow : found.slow) {
    report.ranks.push_back(slow.rank);
  }
  return report;
}

void RunWatch::NewWindow() {
  for (auto& [rank, pace] : paces_) {
    pace.first = pace.now;
  }
}

RunWatch::Actions RunWatch::Tick(Instant now, int restarts_left) {
  Actions actions;
  for (auto it = collections_.begin(); it != collections_.end();) {
    if (!it->awaited.empty() && now - it->begun < kCollectLimit) {
      ++it;
      continue;
    }
    const Collection done = std::move(*it);
    it = collections_.erase(it);
    Finish(done, now, restarts_left, actions);
  }
  WatchHang(now, actions);
  if (now >= next_stragglers_) {
    next_stragglers_ = now + kStragglersEvery;
    if (!paces_.empty()) {
      actions.reports.push_back(Stragglers(""));
      NewWindow();
    }
  }
  return actions;
}

}  // namespace lr::launcher
