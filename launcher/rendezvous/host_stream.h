#pragma once
/// The node's end of one gRPC connection to a host: one attempt, no retry, no memory; RemoteLink
/// makes several of them into one stream of messages.
///
/// Threads: Begin(), Send(), ReadNext() and Close() from the loop, the Listener is called on gRPC's
/// threads. Holds itself alive, and the call open, from Begin() until the stream breaks or is
/// closed.

#include <memory>
#include <string>

#include "proto/lr/v1/rendezvous.pb.h"

#include "common/rpc/transport.h"

namespace lr::launcher {

class HostStream {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnConnected() = 0;
    /// Valid during the call.
    virtual void OnMessage(const v1::HostMessage& message) = 0;
    /// Last of all, but may be called more than once. `ended`: in order, by the host.
    virtual void OnOver(bool ended, std::string why) = 0;
  };

  static std::shared_ptr<HostStream> Make(const std::string& target,
                                          const rpc::ChannelSecurity& security,
                                          std::shared_ptr<Listener> listener);

  virtual ~HostStream() = default;

  virtual void Begin() = 0;

  /// What is sent before the connection stands is queued.
  virtual void Send(v1::NodeMessage message) = 0;

  /// Lets the next message come: the first one comes by itself, each further one when asked for.
  virtual void ReadNext() = 0;

  /// Waits 100 ms at most for what was sent, then ends the call and waits for its end.
  virtual void Close() = 0;
};

}  // namespace lr::launcher
