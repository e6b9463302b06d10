#pragma once
/// (pure) Whether the run hangs, and who is missing (S-21, S-22): alive, but without progress for
/// longer than its phase may take. Kept by the host of a run, fed with the boards of all ranks,
/// asked at each tick. Times are the host's monotonic clock, without the pauses in which everything
/// stood still. Reads no clock, cannot fail.
///
/// A verdict needs a rank beyond its limit, and everybody who is behind beyond theirs: who waits
/// for a rank that may take longer (a save, the first step) does not hang.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/plan/run_policy.h"
#include "launcher/plan/worker_board.h"

namespace lr::launcher {

struct HangLimit {
  std::chrono::milliseconds span{0};
  std::string reason;  ///< "5 x the longest of the last steps, 31.0 s"
};

/// How long this rank may stand where it stands.
HangLimit LimitOf(const WorkerBoard& board, const HangRules& rules);

struct HangVerdict {
  enum class Kind {
    kNone,
    kSuspicion,  ///< collect the evidence, then ask again
    kHang,       ///< the evidence is there and nobody moved
  };
  Kind kind = Kind::kNone;
  std::vector<int> absent;  ///< the ranks that the others wait for; empty: that is not known
  std::string text;         ///< what is seen, in one sentence
  std::vector<std::string> places;  ///< where the ranks stand, those that are absent first
};

class HangWatch {
 public:
  using Instant = std::chrono::nanoseconds;

  explicit HangWatch(HangRules rules) : rules_(rules) {}

  /// Workers start: everything of an earlier epoch is forgotten.
  void Begin(const Assignment& assignment, Instant now);

  void Update(const WorkerBoard& board, Instant now);

  /// `how`: "exit code 0".
  void Ended(int rank, const std::string& how);

  /// Everything stood still for `span`: nobody is blamed for it.
  void Pause(Instant span);

  /// `collected`: the evidence is there.
  HangVerdict Judge(Instant now, bool collected) const;

  /// Whether some rank moved after `then`.
  bool MovedSince(Instant then) const;

 private:
  struct Rank {
    WorkerBoard board;
    Instant changed_at{0};
    Instant heard_at{0};
    std::string ended;  ///< how; empty: it runs
  };

  bool Beyond(const Rank& rank, Instant now) const;
  std::vector<int> Behind() const;
  std::vector<int> Unheard() const;
  std::string AbsenceText(const std::vector<int>& absent) const;
  bool JudgeCollectives(std::vector<int>& absent, std::string& text) const;
  std::string NodeOf(int rank) const;
  std::string Place(const Rank& rank, Instant now) const;
  std::vector<std::string> Places(const std::vector<int>& absent, Instant now) const;

  const HangRules rules_;
  std::vector<NodeAssignment> nodes_;
  std::map<int, Rank> ranks_;  ///< those that told anything, or ended
};

/// What follows a hang: kReport, kRestart or kStop, with the reason.
struct HangDecision {
  HangAction action = HangAction::kReport;
  std::string reason;
};

HangDecision DecideHang(HangAction wanted, int restarts_left);

}  // namespace lr::launcher
