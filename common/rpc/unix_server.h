#pragma once
/// A gRPC service on a unix socket that costs nothing until somebody connects: the socket is
/// accepted on the event loop, and gRPC (threads, 4 MB) starts with the first connection. Only
/// processes of this user, or root, are let in.
///
/// Loop-confined. The socket file has mode 0600 from its first moment and is removed at the end.

#include <chrono>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/status.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace lr::rpc {

class UnixServer {
 public:
  /// Takes over the file of a process that is gone; ALREADY_EXISTS when somebody answers there,
  /// INVALID_ARGUMENT for a path longer than the system allows. `service` outlives the server.
  static Result<std::unique_ptr<UnixServer>> Listen(boost::asio::io_context& loop,
                                                    const std::string& path,
                                                    grpc::Service& service,
                                                    int largest_request);

  virtual ~UnixServer() = default;

  /// Ends all calls: those that end by themselves within `limit` in order, the others cut. Blocks
  /// for at most that long; idempotent; called by the destructor with 200 ms.
  virtual void Shutdown(std::chrono::milliseconds limit) = 0;
};

}  // namespace lr::rpc
