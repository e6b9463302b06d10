#pragma once
/// The streams of the nodes on the host's side: which connection belongs to which, and what becomes
/// of one whose connection broke:
///
///   broken -> does the node's live socket answer?   refused -> its launcher is gone: lost, at once
///                                                    else    -> ask again, each second in the end
///          -> the node connects anew and resumes    -> nothing was lost
///          -> neither, for long enough              -> the run machine judges its silence
///
/// A live socket is believed when it refuses only if it answered while the node was there: behind
/// address translation somebody else refuses. A node without one is lost with its connection.
/// Loop-confined; owned by the server.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "launcher/rendezvous/doorkeeper.h"
#include "launcher/rendezvous/node_session.h"
#include "launcher/rendezvous/run_host.h"

namespace lr::launcher {

class SessionWatch {
 public:
  SessionWatch(boost::asio::io_context& loop, RunHost& host, std::optional<RunToken> token)
      : loop_(loop), host_(host), doorkeeper_(std::move(token), host.machine().run_id()) {}

  /// What came over a connection; fails when the node breaks the rules.
  Status Take(const std::shared_ptr<NodeStream>& stream, Incoming message);

  /// The connection is over; more than once is fine.
  void Broken(const std::shared_ptr<NodeStream>& stream, const std::string& why);

 private:
  using Key = std::pair<std::string, uint64_t>;  ///< node id and the number that the node chose

  Status TakeTrusted(const std::shared_ptr<NodeStream>& stream, Incoming message);
  Status AskForToken(const std::shared_ptr<NodeStream>& stream, Incoming message);
  void Refuse(const std::shared_ptr<NodeStream>& stream, const Refused& refused);
  Status Begin(const std::shared_ptr<NodeStream>& stream, Incoming message);
  Status GoOn(const std::shared_ptr<NodeStream>& stream, const Incoming& message);
  void LookAtLivePort(const std::shared_ptr<NodeSession>& session);
  void Watch(const std::shared_ptr<NodeSession>& session);
  void WatchAgain(const std::shared_ptr<NodeSession>& session);
  void End(const std::shared_ptr<NodeSession>& session, const std::string& why);

  boost::asio::io_context& loop_;
  RunHost& host_;
  Doorkeeper doorkeeper_;
  const std::shared_ptr<HostEncoder> encoder_ = std::make_shared<HostEncoder>();
  std::map<Key, std::shared_ptr<NodeSession>> sessions_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< guards handlers
};

}  // namespace lr::launcher
