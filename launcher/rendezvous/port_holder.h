#pragma once
/// Keeps a port for the workers' store as long as the epoch lasts: bound with address reuse
/// and never listening, so that ordinary binds are refused, "any port" binds never get it, and a
/// store that sets address reuse, as those of PyTorch do, can bind it beside and listen. Giving it
/// free before rank 0 binds would leave it for seconds to another run of this machine. Two holders
/// would not disturb each other, so each also takes a name of this network namespace (an abstract
/// Unix socket). Owned by the membership of rank 0's node.

#include <memory>

#include "common/base/status.h"

namespace lr::launcher {

class PortHolder {
 public:
  /// Port 0: a free one. A busy port is ALREADY_EXISTS and names who holds it.
  static Result<std::unique_ptr<PortHolder>> Hold(int port);

  PortHolder(int fd, int name_fd, int port) : fd_(fd), name_fd_(name_fd), port_(port) {}

  ~PortHolder();
  PortHolder(const PortHolder&) = delete;
  PortHolder& operator=(const PortHolder&) = delete;

  int port() const { return port_; }

 private:
  int fd_;
  int name_fd_;
  int port_;
};

/// The port asked for; when it is busy and was only a default, a free one, and `notice` says so.
Result<std::unique_ptr<PortHolder>> HoldWorkerPort(int port,
                                                   bool explicit_port,
                                                   std::string& notice);

}  // namespace lr::launcher
