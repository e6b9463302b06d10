#pragma once
/// Puts the host of a run on a TCP port: gRPC streams of the other nodes become NodeSinks of the
/// RunHost and their messages its inputs. Owned, beside the host, by the membership of the node
/// that serves. Reactors decode on gRPC's threads and post; the host is touched on the loop alone.

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"
#include "launcher/rendezvous/run_host.h"
#include "launcher/rendezvous/trust.h"

namespace lr::launcher {

class RendezvousServer {
 public:
  /// `address`: a literal or a wildcard; port 0: any free one. ALREADY_EXISTS when the port is
  /// taken (the message names the holder), UNAVAILABLE for anything else. `host` outlives the
  /// server.
  static Result<std::unique_ptr<RendezvousServer>> Listen(boost::asio::io_context& loop,
                                                          RunHost& host,
                                                          const std::string& address,
                                                          int port,
                                                          const Trust& trust = {});

  /// Lets what was sent reach the nodes, for at most one second; then cuts their streams.
  virtual ~RendezvousServer() = default;

  virtual int port() const = 0;
};

}  // namespace lr::launcher
