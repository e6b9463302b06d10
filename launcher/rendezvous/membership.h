#pragma once
/// This node's membership of a run: what the supervision of a node sees of the rendezvous.
/// Everything happens on the event loop; no call blocks. The other nodes, the host and gRPC are
/// behind it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "launcher/plan/assignment.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/resume_choice.h"
#include "launcher/plan/run_policy.h"
#include "launcher/plan/worker_board.h"
#include "launcher/rendezvous/run_types.h"

namespace lr::launcher {

/// Where the rendezvous is, and by which rules this node would host it. Standalone: `standalone`
/// true, nothing leaves the process.
struct RendezvousEndpoint {
  bool standalone = false;
  std::string host;      ///< as given by the user
  int worker_port = 0;   ///< 0: not given, a free one is chosen and held (R-31)
  int control_port = 0;  ///< of c10d; 0: derived (static: worker_port + 1 … + 8, R-3)
  bool control_port_explicit = true;  ///< else the seven above it are tried, too
  bool worker_port_explicit = false;
  std::chrono::seconds join_timeout{600};
  RendezvousTimes times = {};
  std::optional<bool> is_host = {};           ///< nullopt: whoever has the endpoint's address
  std::vector<std::string> local_addrs = {};  ///< --local-addr, in order
  TrustPlan trust = {};
  RunPolicy policy = {};
  bool native = false;          ///< the workers speak worker.proto
  std::string output_dir = {};  ///< where they save, by the command line; empty: not known there
};

class Membership {
 public:
  struct Events {
    std::function<void(const std::string& line)>
        waiting;  ///< a status line for people, every 30 s at most
    std::function<void(const Assignment&)>
        assigned;                           ///< epoch committed; workers must not start yet
    std::function<void(int64_t epoch)> go;  ///< start the workers
    std::function<void(const StopOrder&)>
        stop;  ///< stop this node's workers, then call ReportStopped
    /// The epoch is over, this node's workers are gone, and another epoch is being formed: assigned
    /// and go follow again. `ended.next` says what happens.
    std::function<void(const RunOutcome& ended)> reforming;
    std::function<void(const ControlRequest&)> request;  ///< hand to the native workers
    /// What became of a requested checkpoint so far; the same on every node.
    std::function<void(const CheckpointResult&)> update = nullptr;
    std::function<void(const RunOutcome&)> closed;  ///< the run is over; last event
    std::function<void(int exit_code, const std::string& text)>
        refused;  ///< join failed (75, 76); last event
    /// What the host sees of the run's progress: hangs, stacks, stragglers; may be empty.
    std::function<void(const WatchReport&)> watched = nullptr;
    /// Lists the checkpoints below the directory and calls `done` on the loop, some time later.
    std::function<void(const std::string& output_dir, std::function<void(CheckpointView)> done)>
        survey = nullptr;
    /// On the node that serves: each decision with its reason, for the event log; may be empty.
    std::function<void(const std::string& decision)> note = nullptr;
  };

  /// Joins as `identity`; serves as host when this node owns the endpoint. `loop` must
  /// outlive the membership.
  static Result<std::unique_ptr<Membership>> Start(boost::asio::io_context& loop,
                                                   NodeIdentity identity,
                                                   RendezvousEndpoint endpoint,
                                                   Events events);

  virtual ~Membership() = default;

  /// How far this node's native workers have come; the furthest counts.
  virtual void ReportProgress(int64_t epoch, const TrainingProgress& now) = 0;

  /// What a native worker of this node does: the newest word of it, changed or not.
  virtual void ReportBoard(int64_t epoch, const WorkerBoard& board) = 0;

  /// Answers a kStacks request, in one or more calls; `last`: nothing more comes from this node.
  virtual void ReportStacks(int64_t epoch,
                            const std::string& id,
                            std::vector<RankStack> stacks,
                            bool last) = 0;
  /// A save of one of this node's workers began or ended.
  virtual void ReportSave(int64_t epoch, const SaveNews& news) = 0;

  /// A worker of this node ended; told to the host at once.
  virtual void ReportEnded(int64_t epoch, const WorkerEnding& ending) = 0;

  /// All workers of this node are gone (after `stop`, or because all exited 0).
  virtual void ReportStopped(int64_t epoch) = 0;

  /// Asks the host to stop the run everywhere (a signal reached this node's launcher).
  virtual void RequestStop(const StopOrder& order) = 0;

  /// Asks the host to hand a request to the workers of all nodes; `update` tells what becomes of
  /// it.
  virtual void RequestControl(const ControlRequest& request) = 0;

  /// Leaves before workers exist (a signal during the join).
  virtual void Leave(const std::string& reason) = 0;
};

}  // namespace lr::launcher
