#pragma once
/// What others may know of this run: keeps run.json and events.jsonl, answers lr-ctl, and follows
/// requested checkpoints to their result. Owned by the App, on the event loop. A run whose record
/// or socket cannot be made goes on without them (said once).

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/native/worker_service.h"
#include "launcher/plan/assignment.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/report/failure_history.h"
#include "launcher/report/run_control.h"
#include "launcher/report/run_record.h"

namespace lr::launcher {

class RunReport {
 public:
  struct Requests {
    std::function<void(const ControlRequest&)> checkpoint;  ///< asks all nodes; Updated() answers
    std::function<void(const std::string& reason)> cancel;
    std::function<void(const ControlRequest&)> watch;  ///< answered by Watched(), or not at all
    std::function<std::map<int, WorkerProgress>()> workers;
    std::function<void(const std::string&)> warn;
    std::function<void(const std::string& lines)> say = nullptr;  ///< to the console, any thread
  };

  RunReport(boost::asio::io_context& loop, Requests requests);

  /// Before the first epoch. `directory` may be empty (no record), `control_socket` too.
  void Open(const LaunchPlan& plan,
            const std::string& node_id,
            const std::string& directory,
            const std::string& control_socket);

  /// The workers of an epoch are about to start; their log files lie in `log_directory`, empty:
  /// none are written.
  void Started(const Assignment& assignment, const std::string& log_directory);

  /// The epoch is over and another one is formed.
  void Reforming(const RunOutcome& ended);

  void Progress(const WorkerProgress& now);

  /// What became of a requested checkpoint, whoever asked for it.
  void Updated(const CheckpointResult& result);
  void Ended(const WorkerEnding& ending);
  void Stopping(const std::string& why);

  /// Stacks of this node's workers.
  void Stacks(const std::string& id, const std::vector<RankStack>& stacks);

  /// What the host says about the progress of the run.
  void Watched(const WatchReport& report);

  /// Where the stacks of a collection are; empty: nowhere.
  std::string StackFolder(const std::string& id) const;

  /// Another decision of this launcher, with its reason.
  void Decided(const std::string& what, const std::string& reason);

  /// The last call; returns when the record is on disk.
  void Closed(const RunOutcome& outcome);

 private:
  using WatchDone = std::function<void(const Result<WatchReport>&)>;

  /// Somebody who waits for the host's answer.
  struct Question {
    WatchDone done;
    std::unique_ptr<boost::asio::steady_timer> limit;
  };

  struct Waiting {
    std::string id;
    bool to_the_end = false;
    std::function<void(const CheckpointResult&, bool last)> told;
  };

  void RequestCheckpoint(const CheckpointAsk& ask,
                         std::function<void(const CheckpointResult&, bool last)> told);
  void FailWaiting(const std::string& reason);
  void AskHost(ControlRequest request, WatchDone done);
  void SetLogs(const Assignment& assignment, const std::string& log_directory);
  void Set(const Json& fields);
  void Event(const std::string& name, const Json& fields);

  boost::asio::io_context& loop_;
  Requests requests_;
  std::unique_ptr<RunRecord> record_;
  std::unique_ptr<RunControl> control_;
  std::list<Waiting> waiting_;
  std::map<std::string, Question> questions_;  ///< by the id of the request
  int asked_ = 0;
  std::string directory_;
  Json stacks_ = Json::array();
  std::vector<std::pair<std::string, Json>> requests_told_;  ///< newest result by id, oldest first
  FailureHistory failures_;
  std::string node_id_;
  Json logs_ = Json::array();  ///< log folders of this node, one per attempt
  int64_t last_checkpoint_ = -1;
};

}  // namespace lr::launcher
