#pragma once
/// A way between a node and its host that can be cut, in the test's own process and on its own
/// loop: a TCP forwarder that, when told or after a number of bytes, resets every connection that
/// goes through it. While blocked it lets nobody through and says nothing, as a network does that
/// is cut.

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

namespace lr::launcher::testing {

class CutProxy {
 public:
  using tcp = boost::asio::ip::tcp;
  using error_code = boost::system::error_code;

  CutProxy(boost::asio::io_context& loop, int port)
      : loop_(loop),
        host_(boost::asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)),
        acceptor_(loop, {boost::asio::ip::address_v4::loopback(), 0}) {
    Accept();
  }

  ~CutProxy() {
    error_code ignored;
    acceptor_.close(ignored);
    Cut();
  }

  int port() const { return acceptor_.local_endpoint().port(); }

  /// Resets what is connected; new connections are let through, unless blocked.
  void Cut() {
    ++cuts_;
    for (const auto& pair : std::exchange(pairs_, {})) {
      pair->Reset();
    }
  }

  /// The next cut comes by itself once so many bytes went through, both directions together.
  void CutAfter(int64_t bytes) { cut_at_ = passed_ + bytes; }

  void Block(bool blocked) { blocked_ = blocked; }

  int64_t passed() const { return passed_; }

  int cuts() const { return cuts_; }

 private:
  struct Pair {
    explicit Pair(tcp::socket the_node, boost::asio::io_context& loop)
        : node(std::move(the_node)), host(loop) {}

    void Reset() {
      error_code ignored;
      for (tcp::socket* socket : {&node, &host}) {
        socket->set_option(boost::asio::socket_base::linger(true, 0), ignored);
        socket->close(ignored);
      }
    }

    tcp::socket node;
    tcp::socket host;
    std::array<char, 512> up;
    std::array<char, 512> down;
  };

  void Accept() {
    acceptor_.async_accept(
        [this, alive = std::weak_ptr(alive_)](const error_code& error, tcp::socket node) {
          if (error || alive.expired()) {
            return;
          }
          auto pair = std::make_shared<Pair>(std::move(node), loop_);
          pairs_.push_back(pair);
          if (!blocked_) {
            error_code failed;
            pair->host.connect(host_, failed);
            if (failed) {
              pair->Reset();
            } else {
              Forward(pair, pair->node, pair->host, pair->up);
              Forward(pair, pair->host, pair->node, pair->down);
            }
          }
          Accept();
        });
  }

  void Forward(const std::shared_ptr<Pair>& pair,
               tcp::socket& from,
               tcp::socket& to,
               std::array<char, 512>& buffer) {
    from.async_read_some(
        boost::asio::buffer(buffer),
        [this, alive = std::weak_ptr(alive_), pair, &from, &to, &buffer](const error_code& error,
                                                                         size_t size) {
          if (alive.expired()) {
            return;
          }
          if (error) {
            return error == boost::asio::error::operation_aborted ? void() : Close(pair);
          }
          const int64_t room = cut_at_ ? *cut_at_ - passed_ : static_cast<int64_t>(size);
          const size_t through = static_cast<size_t>(std::min<int64_t>(room, size));
          passed_ += static_cast<int64_t>(through);
          error_code failed;
          boost::asio::write(to, boost::asio::buffer(buffer, through), failed);
          if (cut_at_ && passed_ >= *cut_at_) {
            cut_at_.reset();
            return Cut();
          }
          Forward(pair, from, to, buffer);
        });
  }

  void Close(const std::shared_ptr<Pair>& pair) {
    error_code ignored;
    pair->node.close(ignored);
    pair->host.close(ignored);
    pairs_.remove(pair);
  }

  boost::asio::io_context& loop_;
  const tcp::endpoint host_;
  tcp::acceptor acceptor_;
  std::list<std::shared_ptr<Pair>> pairs_;
  std::optional<int64_t> cut_at_;
  int64_t passed_ = 0;
  int cuts_ = 0;
  bool blocked_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lr::launcher::testing
