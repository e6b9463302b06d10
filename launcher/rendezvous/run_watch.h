#pragma once
/// (pure) The host's eye on the progress of a run: notices hangs (hang_watch.h), has the stacks of
/// all ranks collected before anything is done about one (S-23), compares the ranks' pace (S-25).
/// Owned by the run machine, which feeds it and carries out what it returns. Reads no clock, sends
/// nothing, cannot fail.

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/plan/hang_watch.h"
#include "launcher/plan/straggler.h"
#include "launcher/rendezvous/messages.h"

namespace lr::launcher {

class RunWatch {
 public:
  using Instant = std::chrono::nanoseconds;

  static constexpr std::chrono::seconds kCollectLimit{20};  ///< S-23
  static constexpr std::chrono::minutes kStragglersEvery{5};
  static constexpr size_t kMostCollections = 8;         ///< at the same time
  static constexpr size_t kMostStackBytes = 256 << 10;  ///< in one report

  /// What to do, in this order.
  struct Actions {
    std::optional<ControlRequest> collect;  ///< to all nodes that have a part
    std::vector<WatchReport> reports;       ///< to all nodes that have a part
    std::optional<StopOrder> stop;
    bool final = false;  ///< with `stop`: nothing restarts the run
  };

  explicit RunWatch(HangRules rules) : rules_(rules), hang_(rules) {}

  /// The workers of an epoch start.
  void Begin(const Assignment& assignment, Instant now);

  void Update(const WorkerBoard& board, Instant now);
  void Ended(int rank, const std::string& how);

  void Add(int node_rank, const Stacks& stacks);

  /// kStacks or kStragglers, of lr-ctl.
  Actions Ask(const ControlRequest& request, Instant now);

  void Pause(Instant span);
  Actions Tick(Instant now, int restarts_left);

 private:
  enum class State { kQuiet, kCollecting, kReported };

  struct Collection {
    std::string id;
    bool for_hang = false;
    Instant begun{0};
    std::set<int> awaited;  ///< node ranks
    std::set<int> wanted;   ///< ranks whose stacks come first
    std::vector<RankStack> stacks;
    size_t bytes = 0;
    size_t left_out = 0;

    void Take(const RankStack& stack);
  };

  /// Of one rank, for the straggler report.
  struct Pace {
    WorkerBoard first;  ///< at the begin of the window
    WorkerBoard now;
    std::chrono::microseconds best_median{0};
  };

  ControlRequest Collect(std::string id, bool for_hang, std::set<int> wanted, Instant now);
  void Finish(const Collection& collection, Instant now, int restarts_left, Actions& actions);
  void FinishHang(const Collection& collection, Instant now, int restarts_left, Actions& actions);
  void WatchHang(Instant now, Actions& actions);
  WatchReport Stragglers(const std::string& id) const;
  void NewWindow();
  std::string MissingText(const Collection& collection) const;

  const HangRules rules_;
  HangWatch hang_;
  State state_ = State::kQuiet;
  Instant since_{0};  ///< of the state
  int hangs_ = 0;
  Assignment assignment_;
  std::vector<Collection> collections_;
  std::map<int, Pace> paces_;
  Instant next_stragglers_{0};
};

}  // namespace lr::launcher
