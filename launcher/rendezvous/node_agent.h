#pragma once
/// A node's side of the rendezvous: turns the host's messages into the events of Membership and the
/// calls of Membership into messages. Holds the worker port of rank 0's node, beats, and judges the
/// host: gone or silent too long, this node stops its workers and ends with 75. Loop-confined; made
/// by Membership::Start. After the last event nothing is touched, so that the owner may destroy it
/// from inside that event.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/rendezvous/clock_offset.h"
#include "launcher/rendezvous/live_socket.h"
#include "launcher/rendezvous/membership.h"
#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/port_holder.h"
#include "launcher/rendezvous/reach_probe.h"

namespace lr::launcher {

/// Makes the stream to the host; called again when it broke before the start.
/// `again`: after an epoch ran.
using LinkMaker = std::function<std::unique_ptr<HostLink>(HostLink::Events, bool again)>;

class NodeAgent : public Membership {
 public:
  NodeAgent(boost::asio::io_context& loop,
            NodeIdentity identity,
            RendezvousEndpoint endpoint,
            Events events,
            std::shared_ptr<const EndpointFacts> facts);

  void Join(LinkMaker make_link);

  void ReportProgress(int64_t epoch, const TrainingProgress& now) override;
  void ReportBoard(int64_t epoch, const WorkerBoard& board) override;
  void ReportStacks(int64_t epoch,
                    const std::string& id,
                    std::vector<RankStack> stacks,
                    bool last) override;
  void ReportSave(int64_t epoch, const SaveNews& news) override;
  void ReportEnded(int64_t epoch, const WorkerEnding& ending) override;
  void ReportStopped(int64_t epoch) override;
  void RequestStop(const StopOrder& order) override;
  void RequestControl(const ControlRequest& request) override;
  void Leave(const std::string& reason) override;

 private:
  /// The newest word of a worker, and what the host knows of it.
  struct ToldBoard {
    WorkerBoard now;
    bool heard = false;  ///< since it was told
    int64_t told_ticks = -1;
    std::chrono::steady_clock::time_point told_at{};
  };

  enum class Phase { kJoining, kAssigned, kRunning, kStopping, kOver };

  void OpenLink();
  void On(const Refused& refused);
  void On(const Waiting& waiting);
  void On(const Reserve& reserve);
  void On(const Survey& survey);
  void On(const Assign& assign);
  void On(const Go& go);
  void On(const Stop& stop);
  void On(const Control& control);
  void On(const RequestUpdate& update);
  void On(const BeatEcho& echo);
  void On(const Reforming& reforming);
  void On(const Watched& watched);
  void On(const Closed& closed);

  void OnLost(const std::string& why);
  void HostLost(const std::string& why);
  void LookAgain();
  void BackInTheRun();
  void FinishWithoutHost(const std::string& more);
  void SayWaiting(const std::string& text);
  void StartJoinClock();
  void StartBeating();
  void TellProgress();
  void TellBoards();
  void GiveUp(int exit_code, const std::string& text);
  void Finish(const RunOutcome& outcome);
  std::string JoinTimeoutText() const;

  bool one_node() const { return identity_.max_nodes == 1; }

  boost::asio::io_context& loop_;
  const NodeIdentity identity_;
  const RendezvousEndpoint endpoint_;
  Events events_;
  const std::shared_ptr<const EndpointFacts> facts_;
  LinkMaker make_link_;
  std::unique_ptr<HostLink> link_;
  Phase phase_ = Phase::kJoining;
  Assignment assignment_;
  std::unique_ptr<PortHolder> holder_;
  std::unique_ptr<ReachProbe> probe_;
  std::unique_ptr<LiveSocket> live_socket_;
  ClockOffset clock_;
  TrainingProgress progress_;  ///< of this node's workers in this epoch
  bool progress_told_ = true;
  std::map<int, ToldBoard> boards_;  ///< by rank, of this epoch
  std::vector<WorkerEnding> endings_;
  bool has_run_ = false;                  ///< an epoch of the run ran: its host is not replaced
  bool stopped_ = false;                  ///< all workers of the epoch are gone
  std::optional<std::string> host_lost_;  ///< why, once it is
  bool looking_again_ = false;            ///< for the host that was lost
  std::string last_waiting_;
  std::optional<std::chrono::steady_clock::time_point> said_waiting_;
  std::chrono::steady_clock::time_point heard_{};
  boost::asio::steady_timer join_timer_;
  boost::asio::steady_timer beat_timer_;
  boost::asio::steady_timer retry_timer_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< guards posted handlers
};

}  // namespace lr::launcher
