#pragma once
/// One node's stream as the host sees it, over any number of connections (3.9): numbers what goes
/// out, drops what has come already, and keeps what the node has not confirmed for the next
/// connection. A broadcast is encoded once for all nodes; the numbers are a few bytes behind it.
/// Loop-confined; owned by the server and, as a NodeSink, by the RunHost.

#include <chrono>
#include <memory>
#include <string>

#include <boost/asio/steady_timer.hpp>
#include <grpcpp/support/slice.h>

#include "launcher/rendezvous/doorkeeper.h"
#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/node_stream.h"
#include "launcher/rendezvous/reach_probe.h"

namespace lr::launcher {

/// Encodes a message once, however many streams it goes to. Loop-confined.
class HostEncoder {
 public:
  const grpc::Slice& Encode(const SharedHostMessage& message);

 private:
  SharedHostMessage last_;
  grpc::Slice encoded_;
};

/// The question for a token, which needs no session yet.
grpc::ByteBuffer EncodeChallenge(const Doorkeeper::Challenge& challenge, const std::string& run_id);

class NodeSession final : public NodeSink {
 public:
  NodeSession(boost::asio::io_context& loop,
              std::shared_ptr<HostEncoder> encoder,
              std::shared_ptr<NodeStream> stream,
              const Hello& hello);

  void Send(const SharedHostMessage& message) override;
  void Finish() override;

  /// The node's next message: kNext is to be handed on. A status: the node breaks the rules.
  Result<Arrival> Take(const Envelope& envelope);

  /// The connection is gone; the stream may go on over another one.
  void Detach();

  /// Goes on over `stream`; `received` is what the node has. False: it has what was never sent.
  [[nodiscard]] bool Resume(std::shared_ptr<NodeStream> stream, uint64_t received);

  const std::shared_ptr<NodeStream>& stream() const { return stream_; }

  /// Nothing is sent any more: the host is done with the node.
  bool finished() const { return finished_; }

  /// The node is so far behind that it does not read.
  bool full() const { return sent_.full(); }

  const std::string node_id;
  const std::string seen_from;
  const int live_port;
  int64_t id = 0;  ///< given by the host

  // For the server, which watches over a broken stream.
  bool live_port_seen = false;  ///< it answered while the node was known to be alive
  std::string broken_why;
  std::chrono::steady_clock::time_point broken_since;
  std::chrono::milliseconds pause{0};  ///< until the live socket is asked again
  std::unique_ptr<ReachProbe> probe;
  boost::asio::steady_timer timer;

 private:
  void Write(const grpc::Slice& body, uint64_t number);

  const std::shared_ptr<HostEncoder> encoder_;
  std::shared_ptr<NodeStream> stream_;  ///< null while broken
  SentMessages<grpc::Slice> sent_;
  ReceivedMessages received_;
  bool finished_ = false;
};

}  // namespace lr::launcher
