#include "launcher/rendezvous/live_socket.h"

#include <utility>

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <spdlog/spdlog.h>

namespace lr::launcher {

using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kAfterError{1};  // no descriptors left, for instance

error_code Listen(tcp::acceptor& acceptor, const tcp& family) {
  error_code error;
  acceptor.close(error);
  acceptor.open(family, error);
  if (!error && family == tcp::v6()) {
    acceptor.set_option(boost::asio::ip::v6_only(false), error);
  }
  if (!error) {
    acceptor.bind({family, 0}, error);
  }
  if (!error) {
    acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  }
  return error;
}

}  // namespace

struct LiveSocket::Listener : std::enable_shared_from_this<Listener> {
  explicit Listener(tcp::acceptor the_acceptor)
      : acceptor(std::move(the_acceptor)), pause(acceptor.get_executor()) {}

  void Accept() {
    acceptor.async_accept([self = shared_from_this()](const error_code& error, tcp::socket) {
      if (!self->acceptor.is_open()) {
        return;
      }
      if (!error) {
        return self->Accept();  // the socket is closed on the way
      }
      self->pause.expires_after(kAfterError);
      self->pause.async_wait([self](const error_code& cancelled) {
        if (!cancelled && self->acceptor.is_open()) {
          self->Accept();
        }
      });
    });
  }

  tcp::acceptor acceptor;
  boost::asio::steady_timer pause;
};

std::unique_ptr<LiveSocket> LiveSocket::Open(boost::asio::io_context& loop) {
  tcp::acceptor acceptor(loop);
  error_code error = Listen(acceptor, tcp::v6());
  if (error) {
    error = Listen(acceptor, tcp::v4());
  }
  if (error) {
    spdlog::warn("no socket to show that this launcher lives: {}", error.message());
    return nullptr;
  }
  return std::make_unique<LiveSocket>(std::move(acceptor));
}

LiveSocket::LiveSocket(tcp::acceptor acceptor)
    : listener_(std::make_shared<Listener>(std::move(acceptor))) {
  listener_->Accept();
}

LiveSocket::~LiveSocket() {
  error_code ignored;
  listener_->acceptor.close(ignored);
  listener_->pause.cancel();
}

int LiveSocket::port() const {
  error_code ignored;
  return listener_->acceptor.local_endpoint(ignored).port();
}

}  // namespace lr::launcher
