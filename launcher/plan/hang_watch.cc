#include "launcher/plan/hang_watch.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/rank_list.h"

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using Instant = HangWatch::Instant;

constexpr int kStepFactor = 5;
constexpr int kSaveFactor = 3;
constexpr size_t kMostPlaces = 16;
constexpr std::chrono::seconds kSilence{30};  ///< agents pass on a sign of life every 10 s

double Seconds(Instant span) {
  return std::chrono::duration<double>(span).count();
}

/// "2.5 s", "120 s"
std::string SecondsText(Instant span) {
  return fmt::format("{:.4g} s", Seconds(span));
}

/// The phases in the order that a step runs through them, between two reports of a step.
int OrderOf(WorkerPhase phase) {
  constexpr WorkerPhase kOrder[] = {WorkerPhase::kInit,
                                    WorkerPhase::kIdle,
                                    WorkerPhase::kEval,
                                    WorkerPhase::kCheckpoint,
                                    WorkerPhase::kData,
                                    WorkerPhase::kForward,
                                    WorkerPhase::kBackward,
                                    WorkerPhase::kReduce,
                                    WorkerPhase::kOptimizer};
  return static_cast<int>(std::ranges::find(kOrder, phase) - std::begin(kOrder));
}

/// Who is at a smaller place in the training is behind.
std::pair<int64_t, int> PlaceOf(const WorkerBoard& board) {
  return {board.step, OrderOf(board.phase)};
}

std::string BytesText(int64_t bytes) {
  constexpr double kKib = 1024.0;
  const auto size = static_cast<double>(bytes);
  return size < kKib          ? fmt::format("{} B", bytes)
         : size < kKib * kKib ? fmt::format("{:.1f} KiB", size / kKib)
                              : fmt::format("{:.1f} MiB", size / kKib / kKib);
}

/// "all-reduce #7 of group data (4.0 KiB)"
std::string CollectiveText(const CollectivePosition& position) {
  return fmt::format("{} #{} of group {}{}",
                     position.operation.empty() ? "collective" : position.operation,
                     position.entered,
                     position.group,
                     position.bytes > 0 ? " (" + BytesText(position.bytes) + ")" : "");
}

/// Whoever could be missing when nobody is behind: those that ended or never came.
std::string AtTheSamePlace(const std::vector<int>& gone, const std::vector<int>& unheard) {
  std::vector<std::string> parts = {"nobody is behind the others"};
  if (!gone.empty()) {
    parts.push_back(fmt::format("{} ended", RanksText(gone)));
  }
  if (!unheard.empty()) {
    parts.push_back(fmt::format("{} never reported", RanksText(unheard)));
  }
  return Join(parts, ", ");
}

std::string IsText(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? "is" : "are";
}

/// Who entered which collective of one group.
struct GroupView {
  std::vector<std::pair<int, CollectivePosition>> members;
  int64_t newest = 0;

  std::vector<int> Ranks(bool at_newest) const {
    std::vector<int> ranks;
    for (const auto& [rank, position] : members) {
      if ((position.entered == newest) == at_newest) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

  const CollectivePosition& Newest() const {
    return std::ranges::find_if(members,
                                [&](const auto& member) { return member.second.entered == newest; })
        ->second;
  }

  /// Members that entered the same number with something else; nullptr: none.
  const std::pair<int, CollectivePosition>* Different() const {
    const CollectivePosition& first = Newest();
    const auto other = std::ranges::find_if(members, [&](const auto& member) {
      return member.second.entered == newest &&
             std::tie(member.second.operation, member.second.bytes) !=
                 std::tie(first.operation, first.bytes);
    });
    return other == members.end() ? nullptr : &*other;
  }
};

}  // namespace

HangLimit LimitOf(const WorkerBoard& board, const HangRules& rules) {
  if (board.steps_done == 0) {
    return {rules.first_step, "for the first step"};
  }
  if (board.phase == WorkerPhase::kCheckpoint) {
    const milliseconds learnt = kSaveFactor * board.last_save;
    return learnt > rules.checkpoint
               ? HangLimit{learnt,
                           fmt::format(
                               "{} x the last save, {}", kSaveFactor, SecondsText(board.last_save))}
               : HangLimit{rules.checkpoint, "for a checkpoint"};
  }
  const auto learnt = std::chrono::ceil<milliseconds>(kStepFactor * board.step_longest);
  return learnt > rules.shortest ? HangLimit{learnt,
                                             fmt::format("{} x the longest of the last steps, {}",
                                                         kStepFactor,
                                                         SecondsText(board.step_longest))}
                                 : HangLimit{rules.shortest, "--hang-timeout"};
}

// ---- what is known

void HangWatch::Begin(const Assignment& assignment, Instant /*now*/) {
  nodes_ = assignment.nodes;
  ranks_.clear();
}

void HangWatch::Update(const WorkerBoard& board, Instant now) {
  const auto [it, first] = ranks_.try_emplace(board.rank);
  Rank& rank = it->second;
  if (first || board.ticks != rank.board.ticks) {
    rank.changed_at = now;
  }
  rank.heard_at = now;
  rank.board = board;
}

void HangWatch::Ended(int rank, const std::string& how) {
  ranks_[rank].ended = how;
  ranks_[rank].board.rank = rank;
}

void HangWatch::Pause(Instant span) {
  for (auto& [id, rank] : ranks_) {
    rank.changed_at += span;
    rank.heard_at += span;
  }
}

bool HangWatch::MovedSince(Instant then) const {
  return std::ranges::any_of(ranks_,
                             [&](const auto& entry) { return entry.second.changed_at > then; });
}

// ---- the verdict

bool HangWatch::Beyond(const Rank& rank, Instant now) const {
  const Instant still = now - rank.changed_at;  // most ranks, most of the time: for no limit
  return still > std::min({rules_.shortest, rules_.first_step, rules_.checkpoint}) &&
         still > LimitOf(rank.board, rules_).span;
}

/// Those at the smallest place; all of them when nobody is ahead.
std::vector<int> HangWatch::Behind() const {
  std::vector<int> behind;
  std::optional<std::pair<int64_t, int>> smallest;
  for (const auto& [id, rank] : ranks_) {
    if (!rank.ended.empty() || rank.board.left) {
      continue;
    }
    const auto place = PlaceOf(rank.board);
    if (!smallest || place < *smallest) {
      smallest = place;
      behind.clear();
    }
    if (place == *smallest) {
      behind.push_back(id);
    }
  }
  return behind;
}

/// Those that never told anything, while others did.
std::vector<int> HangWatch::Unheard() const {
  std::vector<int> unheard;
  for (const NodeAssignment& node : nodes_) {
    for (int rank = node.first_rank; rank < node.first_rank + node.local_size; ++rank) {
      if (!ranks_.contains(rank)) {
        unheard.push_back(rank);
      }
    }
  }
  return unheard;
}

/// By the sequence numbers (S-22). False: they are equal, or nobody tells them.
bool HangWatch::JudgeCollectives(std::vector<int>& absent, std::string& text) const {
  std::map<std::string, GroupView> groups;
  for (const auto& [id, rank] : ranks_) {
    for (const CollectivePosition& position : rank.board.collectives) {
      GroupView& group = groups[position.group];
      group.members.emplace_back(id, position);
      group.newest = std::max(group.newest, position.entered);
    }
  }
  std::set<int> missing;
  std::vector<std::string> parts;
  for (const auto& [name, group] : groups) {
    if (group.newest == 0) {
      continue;
    }
    const std::vector<int> behind = group.Ranks(false);
    if (!behind.empty()) {
      missing.insert(behind.begin(), behind.end());
      parts.push_back(fmt::format("{} {} absent from {}, which {} entered",
                                  RanksText(behind),
                                  IsText(behind),
                                  CollectiveText(group.Newest()),
                                  RanksText(group.Ranks(true))));
    } else if (const auto* other = group.Different()) {
      parts.push_back(fmt::format("the ranks do not do the same: rank {} entered {}, rank {} {}",
                                  group.members.front().first,
                                  CollectiveText(group.Newest()),
                                  other->first,
                                  CollectiveText(other->second)));
    }
  }
  absent.assign(missing.begin(), missing.end());
  text = Join(parts, "; ");
  return !parts.empty();
}

/// By the place in the training, when the collectives do not tell.
std::string HangWatch::AbsenceText(const std::vector<int>& absent) const {
  const WorkerBoard& board = ranks_.at(absent.front()).board;
  return fmt::format("{} {} behind the others, at step {} in phase {}",
                     RanksText(absent),
                     IsText(absent),
                     board.step,
                     PhaseName(board.phase));
}

HangVerdict HangWatch::Judge(Instant now, bool collected) const {
  std::vector<int> live;
  std::vector<int> gone;
  const Rank* longest = nullptr;
  for (const auto& [id, rank] : ranks_) {
    if (!rank.ended.empty() || rank.board.left) {
      gone.push_back(id);
      continue;
    }
    live.push_back(id);
    if (Beyond(rank, now) && (longest == nullptr || rank.changed_at < longest->changed_at)) {
      longest = &rank;
    }
  }
  if (longest == nullptr || !rules_.on) {
    return {};
  }
  const std::vector<int> behind = Behind();
  if (!std::ranges::all_of(behind, [&](int rank) { return Beyond(ranks_.at(rank), now); })) {
    return {};
  }
  HangVerdict verdict{.kind = collected ? HangVerdict::Kind::kHang : HangVerdict::Kind::kSuspicion,
                      .absent = {},
                      .text = "",
                      .places = {}};
  std::string who;
  if (!JudgeCollectives(verdict.absent, who)) {
    if (behind.size() < live.size()) {
      verdict.absent = behind;
      who = AbsenceText(behind);
    } else {
      verdict.absent = gone;
      who = AtTheSamePlace(gone, Unheard());
    }
  }
  const HangLimit limit = LimitOf(longest->board, rules_);
  verdict.text = fmt::format("no progress of {} for {:.1f} s (limit {}: {}): {}",
                             RanksText(live),
                             Seconds(now - longest->changed_at),
                             SecondsText(limit.span),
                             limit.reason,
                             who);
  verdict.places = Places(verdict.absent, now);
  return verdict;
}

// ---- words

std::string HangWatch::NodeOf(int rank) const {
  const NodeAssignment* node = NodeOfRank(nodes_, rank);
  return node == nullptr ? "no node" : fmt::format("node {}, {}", node->node_rank, node->host_name);
}

/// "rank 2 (node 1, gpu07): step 5, phase data for 130.2 s"
std::string HangWatch::Place(const Rank& rank, Instant now) const {
  const std::string who = fmt::format("rank {} ({})", rank.board.rank, NodeOf(rank.board.rank));
  if (!rank.ended.empty()) {
    return fmt::format("{}: ended with {}", who, rank.ended);
  }
  if (rank.board.left) {
    return fmt::format("{}: has said goodbye after step {}", who, rank.board.step);
  }
  std::string text = fmt::format("{}: step {}, phase {} for {:.1f} s",
                                 who,
                                 rank.board.step,
                                 PhaseName(rank.board.phase),
                                 Seconds(now - rank.changed_at));
  for (const CollectivePosition& position : rank.board.collectives) {
    if (position.entered > 0) {
      text += fmt::format(", {}", CollectiveText(position));
    }
  }
  if (now - rank.heard_at > kSilence) {
    text += fmt::format(", not heard for {:.0f} s", Seconds(now - rank.heard_at));
  }
  return text;
}

std::vector<std::string> HangWatch::Places(const std::vector<int>& absent, Instant now) const {
  std::vector<int> order = absent;
  for (const auto& [id, rank] : ranks_) {
    if (std::ranges::find(absent, id) == absent.end()) {
      order.push_back(id);
    }
  }
  const size_t all = order.size();
  order.resize(std::min(all, kMostPlaces));
  std::vector<std::string> places;
  places.reserve(order.size() + 1);
  for (const int id : order) {
    places.push_back(Place(ranks_.at(id), now));
  }
  if (all > order.size()) {
    places.push_back(fmt::format("and {} more ranks", all - order.size()));
  }
  return places;
}

HangDecision DecideHang(HangAction wanted, int restarts_left) {
  switch (wanted) {
    case HangAction::kReport:
      return {HangAction::kReport, "the run is left alone (--hang-action=report)"};
    case HangAction::kStop:
      return {HangAction::kStop, "the run is stopped (--hang-action=stop)"};
    case HangAction::kRestart:
      return {HangAction::kRestart, "the workers are stopped (--hang-action=restart)"};
    case HangAction::kAuto:
      break;
  }
  return restarts_left > 0
             ? HangDecision{HangAction::kRestart, "the workers are stopped for a restart"}
             : HangDecision{HangAction::kReport,
                            "the run is left alone: no restart is left (--max-restarts, "
                            "--hang-action)"};
}

}  // namespace lr::launcher
