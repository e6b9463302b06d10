#pragma once
/// (pure) The run of all nodes as the host sees it (spec 3.4), for a fixed number of nodes:
///
///   OPEN -> FORMING -> COMMITTING -> RUNNING -> STOPPING -> CLOSED
///              ^____________|  a member was lost before GO: the epoch is formed anew as e + 1
///
/// Inputs are messages of nodes, lost streams and the passing of time; the output of each is the
/// list of actions for the host to execute, in order, each with its reason in words. Reads no
/// clock, sends nothing, cannot fail. Invariants, tested by random walks: at most one epoch runs;
/// no GO(e) before every chosen member acknowledged e; every walk ends CLOSED or waits for somebody
/// whom WaitingFor() names. Called by RunHost on the event loop.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/rendezvous/join_check.h"
#include "launcher/rendezvous/messages.h"

namespace lr::launcher {

/// Given by the host to each stream; never reused.
using MemberId = int64_t;

/// The host's monotonic clock, from any origin.
using Instant = std::chrono::nanoseconds;

/// Limits of 3.7. A gap between two ticks beyond `own_pause` is ours, not the members': they are
/// not blamed for it.
struct RunTiming {
  std::chrono::milliseconds join{600'000};
  std::chrono::milliseconds commit{10'000};
  std::chrono::milliseconds suspect{5'000};
  std::chrono::milliseconds lost{15'000};
  std::chrono::milliseconds waiting_line{30'000};
  std::chrono::milliseconds own_pause{2'000};
};

enum class RunState { kOpen, kForming, kCommitting, kRunning, kStopping, kClosed };

struct RunAction {
  enum class Kind {
    kSend,  ///< `message` to `member`
    kDrop,  ///< close the stream of `member`; it is no member any more
    kNote,  ///< tell people and the event log; `reason` alone
  };
  Kind kind = Kind::kNote;
  MemberId member = 0;
  SharedHostMessage message;
  std::string reason;
};

using RunActions = std::vector<RunAction>;

class RunMachine {
 public:
  RunMachine(RunRules rules, RunTiming timing, Instant now);

  RunActions Handle(MemberId from, const NodeMessage& message, Instant now);
  RunActions StreamLost(MemberId member, const std::string& why, Instant now);

  /// Judges everything that depends on time; call a few times per second while nodes are remote.
  RunActions Tick(Instant now);

  RunState state() const { return state_; }

  int64_t epoch() const { return assignment_.epoch; }

  const std::string& run_id() const { return rules_.run_id; }

  /// Who or what the run waits for, in words; empty once CLOSED.
  std::string WaitingFor() const;

  /// Set once CLOSED.
  const std::optional<RunOutcome>& outcome() const { return outcome_; }

 private:
  struct Member {
    NodeIdentity identity;
    std::string address;  ///< as the host sees it
    bool local = false;
    int join_order = 0;
    Instant last_heard{0};
    bool suspect = false;
    // Of the current epoch:
    bool acked = false;
    bool stopped = false;  ///< its workers are gone
    bool gone = false;     ///< lost or left; kept for the names in texts
    std::string unreachable;
    const NodeAssignment* part = nullptr;  ///< in assignment_.nodes
  };

  void On(MemberId from, const Hello& hello);
  void On(MemberId from, const Reserved& reserved);
  void On(MemberId from, const Ack& ack);
  void On(MemberId from, const Beat& beat);
  void On(MemberId from, const Ended& ended);
  void On(MemberId from, const Stopped& stopped);
  void On(MemberId from, const StopRequest& request);
  void On(MemberId from, const ControlAsk& ask);
  void On(MemberId from, const Bye& bye);

  // run_machine.cc: joining, waiting, leaving
  void RefuseJoin(MemberId from, const NodeIdentity& node, Refused refused);
  std::optional<Refused> CheckHello(const Hello& hello) const;
  void Leave(MemberId id, const std::string& why);
  void RefuseAll(RefusalCode code, int exit_code, const std::string& text);
  void JudgeSilence();
  void JudgeJoin();
  std::string WaitingText() const;
  std::string MissingRanks() const;

  // run_machine_epoch.cc: committing, running, stopping, closing
  void StartCommit();
  void FinishCommit();
  void JudgeCommit();
  void Reform(const std::string& why);
  void LeaveWhileWorking(Member& member, const std::string& why);
  void BeginStop(const StopOrder& order);
  void CloseWhenAllStopped();
  void Close(RunOutcome outcome);
  RunOutcome DecideOutcome() const;
  int CountEnded(const Member& member) const;
  const Member* rank_zero() const;

  bool working() const { return state_ == RunState::kRunning || state_ == RunState::kStopping; }

  std::string Describe(const Member& member) const;
  std::string ListMembers(bool (*wanted)(const Member&)) const;
  void Send(MemberId to, HostMessage message, std::string reason);
  void SendAll(HostMessage message, const std::string& reason);
  void Note(std::string reason);
  RunActions TakeActions();

  const RunRules rules_;
  const RunTiming timing_;
  const Instant opened_;
  Instant last_tick_;
  RunState state_ = RunState::kOpen;
  Instant now_{0};
  Instant commit_deadline_{0};
  Instant next_waiting_line_{0};
  Instant running_since_{0};
  int joins_ = 0;
  std::map<MemberId, Member> members_;
  Assignment assignment_;
  bool endpoint_known_ = false;
  std::map<int, WorkerEnding> endings_;  ///< by rank, of the current epoch
  std::optional<StopOrder> stop_;
  std::vector<std::string> lost_;  ///< nodes lost while workers ran, with the reason
  std::optional<RunOutcome> outcome_;
  RunActions actions_;
};

/// "FORMING".
std::string_view RunStateName(RunState state);

}  // namespace lr::launcher
