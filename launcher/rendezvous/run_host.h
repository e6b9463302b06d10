#pragma once
/// The host of a run: executes what the run machine decides. Owns the machine, the streams of the
/// nodes and the timer; decides nothing. Loop-confined; owned by the membership of the node that
/// serves. When the run is over, the other nodes get the outcome first and the host's own node
/// last, so that its process does not exit under a message that is still on its way.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/run_machine.h"

namespace lr::launcher {

class RunHost {
 public:
  /// `note` receives every decision with its reason; may be empty.
  RunHost(boost::asio::io_context& loop,
          RunRules rules,
          RunTiming timing,
          std::function<void(const std::string&)> note);

  /// A stream was opened. `local`: the host's own node. The sink lives until Finish().
  MemberId Open(std::shared_ptr<NodeSink> sink, std::string seen_from, bool local);

  void Receive(MemberId from, NodeMessage message);

  /// Something that people may want to know of the stream; decides nothing.
  void Note(MemberId member, const std::string& what) const;

  /// The stream is over, for whatever reason; unknown ids are fine.
  void Lost(MemberId member, const std::string& why);

  const RunMachine& machine() const { return machine_; }

 private:
  struct Stream {
    std::shared_ptr<NodeSink> sink;
    std::string seen_from;
    bool local = false;
  };

  Instant Now() const;
  void Execute(const RunActions& actions);
  void Deliver(MemberId to, const SharedHostMessage& message);
  void ArmTimer();
  void SettleIfDone();
  void DeliverLast();
  bool has_remote() const;

  const std::function<void(const std::string&)> note_;
  RunMachine machine_;
  std::map<MemberId, Stream> streams_;
  MemberId next_id_ = 1;
  boost::asio::steady_timer tick_;
  boost::asio::steady_timer settle_;
  bool ticking_ = false;
  bool settling_ = false;
  std::shared_ptr<NodeSink> local_sink_;
  SharedHostMessage last_for_local_;  ///< the outcome, held back until the others have it
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< guards timer handlers
};

}  // namespace lr::launcher
