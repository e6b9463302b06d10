#pragma once
/// The two ends of the stream between a node and its host, free of transport: local_link.h keeps
/// both in one process, grpc_link.h and grpc_host.h put gRPC between them. Everything here happens
/// on the event loop.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/rendezvous/messages.h"

namespace lr::launcher {

/// What this node knows of the place where the nodes meet; filled while the link looks for it.
struct EndpointFacts {
  std::vector<std::string> resolved;  ///< addresses of the endpoint, as resolved here
  std::vector<std::string> own;       ///< addresses of this node's interfaces
};

/// A node's end. Destroying it cuts the stream; no event comes after that.
class HostLink {
 public:
  struct Events {
    std::function<void(const HostMessage&)> message;
    std::function<void(const std::string& why)> lost;  ///< last event
    /// Nobody answers yet: what was tried, in words; `say`: for long enough to tell people.
    std::function<void(const std::string& tried, bool say)> searching;
  };

  virtual ~HostLink() = default;
  virtual void Send(NodeMessage message) = 0;
};

/// The host's end of one node's stream.
class NodeSink {
 public:
  virtual ~NodeSink() = default;
  virtual void Send(const SharedHostMessage& message) = 0;

  /// Ends the stream after what was sent; idempotent.
  virtual void Finish() = 0;
};

}  // namespace lr::launcher
