#pragma once
/// One lr-launch from the first word to the other nodes until its exit code: joins the rendezvous,
/// starts this node's workers when told, reports how they end, stops them when anybody's worker
/// failed or a signal came, and says what happened. Everything runs on the thread that calls Run(),
/// which must be the main thread (process.h). Owned by main().

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/native/marker_watch.h"
#include "launcher/native/preempt_watch.h"
#include "launcher/native/worker_service.h"
#include "launcher/plan/failure_summary.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/signal_plan.h"
#include "launcher/plan/worker_variables.h"
#include "launcher/rendezvous/membership.h"
#include "launcher/run_report.h"
#include "launcher/signal_watch.h"
#include "launcher/stack_collection.h"
#include "launcher/supervise/console.h"
#include "launcher/supervise/log_writer.h"
#include "launcher/supervise/sweeper.h"
#include "launcher/supervise/worker_group.h"

namespace lr::launcher {

/// What the App does to the world beyond its own processes; tests pass fakes.
struct Doors {
  std::function<Result<std::unique_ptr<Membership>>(
      boost::asio::io_context&, NodeIdentity, RendezvousEndpoint, Membership::Events)>
      join;
  /// Called for native programs only.
  std::function<Result<std::unique_ptr<WorkerService>>(
      boost::asio::io_context&, const std::string& socket_path, WorkerService::Events)>
      serve_workers;
  /// Lists the checkpoints of an output directory; answers on the loop.
  std::function<void(const std::string& output_dir, std::function<void(CheckpointView)> done)>
      survey = nullptr;
};

/// This launcher among others.
struct LauncherFacts {
  std::string node_id;  ///< the run marker of its workers is LR_NODE_ID=<node_id>
  std::string host_name;
  std::string build;
  std::string foreign_digest;
  Variables environment;  ///< inherited by the workers
};

class App {
 public:
  App(boost::asio::io_context& loop,
      Console& console,
      Sweeper& sweeper,
      Doors doors,
      LaunchPlan plan,
      LauncherFacts facts);

  /// Until the run is over for this node; returns the exit code.
  int Run();

 private:
  Status Join();
  Membership::Events MembershipEvents();
  template <typename... Args>
  std::function<void(Args...)> Posted(void (App::*handler)(Args...));

  void OnWaiting(const std::string& line);
  void OnAssigned(const Assignment& assignment);
  void OnGo(int64_t epoch);
  void OnStop(const StopOrder& order);
  void OnReforming(const RunOutcome& ended);
  void OnRequest(const ControlRequest& request);
  void OnWatched(const WatchReport& report);
  void OnUpdate(const CheckpointResult& result);
  void OnClosed(const RunOutcome& outcome);
  void OnRefused(int exit_code, const std::string& text);
  void OnProgress(const WorkerProgress& now);
  void OnSaved(const SaveNews& news);
  void OnWorkerEnded(const WorkerEnding& ending);
  void OnWorkersGone(const std::vector<ProcessInfo>& leftover);
  void OnSignal(int signal);

  // app_watch.cc
  void CollectStacks(const ControlRequest& request);
  void OnStacks(const std::string& id, std::vector<RankStack> stacks);
  std::string PlaceOf(int rank) const;

  void LeaveJoin(int signal, const std::string& reason);
  void EndRun(int signal, const std::string& reason);
  void StopRun(const StopOrder& order);
  void Ask(const ControlRequest& request);
  void Decide(const std::string& what, const std::string& reason);
  void StopWorkers(StopReason reason, int signal, int64_t within_ms = 0);

  // app_preempt.cc: the machine is wanted back
  void WatchForNotices();
  void ArmTimeLimit();
  void OnNotice(const Notice& notice);
  std::optional<std::chrono::milliseconds> JobTimeLeft() const;
  SaveEstimates Estimates() const;

  void ForwardUserSignal(int signal);
  void AskForeign(const ControlRequest& request);
  void AskFor(ControlRequest::Kind kind, const std::string& who);
  void ServeWorkers();
  void PrepareDirectories();
  void OpenReport();
  void ExplainOutcome();
  int End(int exit_code);
  void WriteResult();
  FailureContext Context() const;
  void Say(const std::string& text);
  void Finish(int exit_code);

  boost::asio::io_context& loop_;
  Console& console_;
  Sweeper& sweeper_;
  const Doors doors_;
  const LaunchPlan plan_;
  const LauncherFacts facts_;
  RunPhase phase_ = RunPhase::kJoining;
  std::optional<Assignment> assignment_;
  NodeFacts node_;
  std::string run_directory_;
  LogWriter logs_;
  std::unique_ptr<SignalWatch> signals_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<RunReport> report_;  ///< from the first go on
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<PreemptWatch> watch_;  ///< while workers run
  std::unique_ptr<MarkerWatch> marker_;  ///< of the checkpoint that a foreign program was asked for
  std::string run_socket_;               ///< of lr-ctl; empty: none
  boost::asio::steady_timer limit_timer_;
  boost::asio::steady_timer leave_timer_;
  std::optional<RunOutcome> outcome_;
  std::map<int, WorkerEnding> endings_;  ///< by rank, for the result file
  const int64_t started_unix_ns_;
  std::map<std::string, std::unique_ptr<StackCollection>> collections_;  ///< by id of the request
  std::string hang_;             ///< of this epoch, for the failure report
  std::vector<int> slow_ranks_;  ///< those last told
  int requests_ = 0;
  bool left_ = false;  ///< a signal ended the join
  int exit_code_ = 0;
};

}  // namespace lr::launcher
