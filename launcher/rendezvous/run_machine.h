#pragma once
/// (pure) The run of all nodes as the host sees it (spec 3.4), from the first join over any number
/// of epochs to the outcome:
///
///   OPEN -> FORMING -> COMMITTING -> RUNNING -> STOPPING -> CLOSED
///              ^____________|                      |
///              |  a member was lost before GO      |
///              |___________________________________|
///                 the run goes on (restart_policy.h): formed anew as epoch e + 1
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
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/restart_policy.h"
#include "launcher/rendezvous/join_check.h"
#include "launcher/rendezvous/messages.h"
#include "launcher/rendezvous/node_health.h"
#include "launcher/rendezvous/run_watch.h"

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
  std::chrono::milliseconds survey{60'000};  ///< for a node to list its checkpoints
  std::chrono::milliseconds stop{90'000};    ///< from the stop order to an empty node
  std::chrono::milliseconds suspect{5'000};
  std::chrono::milliseconds lost{15'000};
  std::chrono::milliseconds last_call{30'000};        ///< for more nodes once the minimum is here
  std::chrono::milliseconds reform_last_call{5'000};  ///< the same when a later epoch is formed
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

  /// "node 1 (host-b)"; a node that is no member: "a node".
  std::string NameOf(MemberId member) const;

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
    std::optional<int> last_rank;  ///< node rank in the epoch that ran last
    bool returning = false;        ///< from a host that was lost in that epoch
    // Of the current epoch:
    bool gone = false;       ///< lost or left; kept for the names in texts
    int leaving_signal = 0;  ///< its launcher got a signal: it leaves, the run goes on
    bool preempted = false;  ///< it leaves because its machine is wanted back
    std::string unreachable;
    const NodeAssignment* part = nullptr;  ///< in assignment_.nodes; nullptr: a spare
  };

  void On(MemberId from, const Hello& hello);
  void On(MemberId from, const Reserved& reserved);
  void On(MemberId from, const Ack& ack);
  void On(MemberId from, const Beat& beat);
  void On(MemberId from, const Progress& progress);
  void On(MemberId from, const Boards& boards);
  void On(MemberId from, const Stacks& stacks);
  void On(MemberId from, const Surveyed& surveyed);
  void On(MemberId from, const Saved& saved);
  void On(MemberId from, const Ended& ended);
  void On(MemberId from, const Stopped& stopped);
  void On(MemberId from, const StopRequest& request);
  void On(MemberId from, const ControlAsk& ask);
  void On(MemberId from, const Bye& bye);

  // run_machine_join.cc: joining, waiting, leaving before workers run
  void RefuseJoin(MemberId from, const NodeIdentity& node, Refused refused);
  std::optional<Refused> CheckHello(const Hello& hello) const;
  void Admit(MemberId from, const Hello& hello);
  void DropTwin(const std::string& node_id);
  void JudgeForming();
  std::string WhyComplete() const;
  void JudgeJoin();
  void Leave(MemberId id, const std::string& why);
  void RefuseAll(RefusalCode code, int exit_code, const std::string& text);
  std::string WaitingText() const;
  std::string MissingRanks() const;

  // run_machine_epoch.cc: committing and running
  void StartCommit(const std::string& why);
  std::vector<MemberId> ChooseMembers();
  void AssignRanks(const std::vector<Member*>& members, const std::vector<size_t>& order);
  void OfferGrowth();
  void Propose(const std::string& address);
  void FinishCommit();
  bool TryAnotherAddress();
  void JudgeCommit();
  void Reform(const std::string& why);
  int CountEnded(const Member& member) const;
  const Member* rank_zero() const;

  // run_machine_watch.cc: hangs, stacks, stragglers
  void JudgeWatch();
  void Carry(const RunWatch::Actions& actions);
  // run_machine_requests.cc: requested checkpoints
  void Tell(const CheckpointRequests::Changes& changes);
  std::string WhyNoRequests() const;
  bool SavedSinceStop() const;

  // run_machine_resume.cc: where the workers of an epoch go on
  void AskForCheckpoints(const std::string& why);
  void AssignWhenReady();
  void ChooseCheckpoint();

  // run_machine_end.cc: stopping, and what follows
  void LeaveWhileWorking(MemberId id, const std::string& why);
  void BeginStop(const StopOrder& order);
  void JudgeStop();
  void EndWhenAllStopped();
  EpochEnd DescribeEnd(const RunOutcome& outcome) const;
  bool MayLeave(const Member& member, const StopOrder& order) const;
  void LetGo(MemberId id, const std::string& why);
  void FormAgain(RunOutcome ended, const RestartDecision& next);
  void Close(RunOutcome outcome);

  bool elastic() const { return rules_.min_nodes < rules_.max_nodes; }

  bool working() const { return state_ == RunState::kRunning || state_ == RunState::kStopping; }

  std::string Describe(const Member& member) const;
  std::string List(const std::set<MemberId>& members) const;
  void JudgeSilence();
  void Send(MemberId to, HostMessage message, std::string reason);
  void SendAll(HostMessage message, const std::string& reason);
  void SendMembers(HostMessage message, const std::string& reason);
  void Drop(MemberId member, std::string reason);
  void Note(std::string reason);
  RunActions TakeActions();

  const RunRules rules_;
  const RunTiming timing_;
  RunState state_ = RunState::kOpen;
  Instant now_{0};
  Instant last_tick_;
  Instant forming_since_;             ///< begin of the join clock
  Instant form_after_{0};             ///< the pause before a restart
  std::optional<Instant> call_ends_;  ///< the last call for more nodes, once the minimum is here
  Instant commit_deadline_{0};
  Instant stop_deadline_{0};
  Instant next_waiting_line_{0};
  Instant running_since_{0};
  int joins_ = 0;
  std::map<MemberId, Member> members_;
  /// Whose answer the state waits for: Ack while COMMITTING, Stopped while workers run.
  std::set<MemberId> awaited_;
  Assignment assignment_;
  bool endpoint_known_ = false;
  std::vector<std::string> addresses_;  ///< of rank 0's node that are still to be tried
  std::string unreached_;               ///< those that were, and who could not reach them
  bool assigned_ = false;               ///< the assignment of the epoch is out
  std::set<MemberId> unsurveyed_;       ///< have not said yet which checkpoints they see
  std::map<int, CheckpointView> seen_;  ///< by node rank
  std::string output_dir_;              ///< of the workers; empty: nobody knows one
  CheckpointRequests requests_;
  SaveEstimates estimates_;
  int64_t saved_before_stop_ = 0;
  std::string start_;                    ///< "restart 1 of 3": what the next start is called
  int64_t reached_step_ = 0;             ///< by the epoch before
  std::map<int, WorkerEnding> endings_;  ///< by rank, of the current epoch
  std::optional<TrainingProgress> progress_;
  std::optional<StopOrder> stop_;
  bool final_ = false;            ///< a person or scheduler ended the run: nothing restarts it
  bool growing_ = false;          ///< the workers were asked to stop at a checkpoint for newcomers
  bool ending_ = false;           ///< somebody asked for a checkpoint and the end
  std::set<std::string> missed_;  ///< hosts lost in the last epoch, welcome back before spares
  NodeHealth health_;
  RunWatch watch_;
  std::vector<std::string> lost_;  ///< nodes lost while workers ran, with the reason
  RestartHistory history_;
  std::minstd_rand random_;  ///< for the jitter of the pauses
  std::optional<RunOutcome> outcome_;
  RunActions actions_;
};

/// "FORMING".
std::string_view RunStateName(RunState state);

}  // namespace lr::launcher
