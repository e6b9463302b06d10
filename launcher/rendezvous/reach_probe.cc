#include "launcher/rendezvous/reach_probe.h"

#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "launcher/rendezvous/endpoint_choice.h"

namespace lr::launcher {

using boost::asio::ip::tcp;
using boost::system::error_code;

struct ReachProbe::Attempt {
  Attempt(boost::asio::io_context& loop, std::string the_target)
      : resolver(loop), socket(loop), timer(loop), target(std::move(the_target)) {}

  void Answer(const ReachAnswer& answer) {
    timer.cancel();
    if (auto callback = std::exchange(done, nullptr)) {
      callback(answer);
    }
  }

  void AnswerConnect(const error_code& error) {
    if (!error) {
      return Answer({ReachAnswer::Kind::kConnected, ""});
    }
    if (error == boost::asio::error::connection_refused ||
        error == boost::asio::error::connection_reset) {
      return Answer({ReachAnswer::Kind::kRefused, ""});
    }
    AnswerSilent(fmt::format("cannot reach {}: {}", target, error.message()));
  }

  void AnswerSilent(std::string problem) {
    Answer({ReachAnswer::Kind::kSilent, std::move(problem)});
  }

  tcp::resolver resolver;
  tcp::socket socket;
  boost::asio::steady_timer timer;
  std::string target;
  Done done;
};

ReachProbe::ReachProbe(boost::asio::io_context& loop,
                       const std::string& address,
                       int port,
                       std::chrono::milliseconds limit,
                       Done done)
    : attempt_(std::make_shared<Attempt>(loop, HostPort(address, port))) {
  attempt_->done = std::move(done);
  attempt_->timer.expires_after(limit);
  attempt_->timer.async_wait([attempt = attempt_, limit](const error_code& error) {
    if (!error) {
      attempt->AnswerSilent(
          fmt::format("cannot reach {}: no answer within {} ms", attempt->target, limit.count()));
      attempt->socket.close();
    }
  });
  attempt_->resolver.async_resolve(
      address,
      std::to_string(port),
      [attempt = attempt_](const error_code& error, const tcp::resolver::results_type& found) {
        if (error) {
          return attempt->AnswerSilent(
              fmt::format("cannot resolve {}: {}", attempt->target, error.message()));
        }
        boost::asio::async_connect(
            attempt->socket, found, [attempt](const error_code& failed, const tcp::endpoint&) {
              attempt->AnswerConnect(failed);
            });
      });
}

ReachProbe::~ReachProbe() {
  attempt_->done = nullptr;
  attempt_->timer.cancel();
  attempt_->resolver.cancel();
  error_code ignored;
  attempt_->socket.close(ignored);
}

}  // namespace lr::launcher
