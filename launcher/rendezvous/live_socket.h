#pragma once
/// A socket that says nothing but that this launcher lives: who connects is let in and shown
/// out. When a stream breaks, "connection refused" here means that the process is gone, and silence
/// that the way is cut. Loop-confined; owned by the NodeAgent.

#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace lr::launcher {

class LiveSocket {
 public:
  /// On a free port of all addresses; nullptr, and a line in the log, where none can be had: the
  /// node is then judged by its stream alone.
  static std::unique_ptr<LiveSocket> Open(boost::asio::io_context& loop);

  explicit LiveSocket(boost::asio::ip::tcp::acceptor acceptor);
  ~LiveSocket();

  int port() const;

 private:
  struct Listener;
  std::shared_ptr<Listener> listener_;
};

}  // namespace lr::launcher
