#include "launcher/rendezvous/searching_link.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "common/base/text.h"
#include "common/contract/exit_codes.h"
#include "launcher/rendezvous/endpoint_choice.h"
#include "launcher/rendezvous/local_link.h"
#include "launcher/rendezvous/port_owner.h"
#include "launcher/rendezvous/remote_link.h"

namespace lr::launcher {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr int kPorts = 8;
constexpr std::chrono::seconds kAnswer{5};     ///< from the connection to the first answer
constexpr std::chrono::seconds kPatience{10};  ///< until people are told that nobody answers

std::string ListOrNothing(const std::vector<std::string>& items) {
  return items.empty() ? "nothing" : Join(items, ", ");
}

}  // namespace

std::vector<int> CandidatePorts(int first) {
  std::vector<int> ports;
  for (int port = first; port < first + kPorts && port <= 65'535; ++port) {
    ports.push_back(port);
  }
  return ports;
}

SearchingLink::SearchingLink(boost::asio::io_context& loop,
                             SearchOptions options,
                             std::shared_ptr<EndpointFacts> facts,
                             Events events)
    : loop_(loop),
      options_(std::move(options)),
      facts_(std::move(facts)),
      events_(std::make_shared<const Events>(std::move(events))),
      resolver_(loop),
      timer_(loop),
      since_(steady_clock::now()) {}

SearchingLink::~SearchingLink() = default;

void SearchingLink::Send(NodeMessage message) {
  if (connected_) {
    link_->Send(std::move(message));
  } else if (Hello* hello = std::get_if<Hello>(&message)) {
    hello_ = std::move(*hello);
    Resolve();
  }
}

bool SearchingLink::MayServe() const {
  return options_.is_host.value_or(OwnsAny(facts_->resolved, facts_->own));
}

// ---- where to look

void SearchingLink::Resolve() {
  resolver_.async_resolve(
      options_.host,
      "",
      [this, alive = std::weak_ptr(alive_)](const error_code& error,
                                            const tcp::resolver::results_type& found) {
        if (alive.expired()) {
          return;
        }
        facts_->resolved.clear();
        for (const auto& entry : found) {
          const std::string address = entry.endpoint().address().to_string();
          if (std::ranges::find(facts_->resolved, address) == facts_->resolved.end()) {
            facts_->resolved.push_back(address);
          }
        }
        if (error) {
          last_problem_ = fmt::format("the name cannot be resolved: {}", error.message());
          return Again();
        }
        AskAll();
      });
}

void SearchingLink::AskAll() {
  queue_.clear();
  binding_ = false;
  for (const int port : options_.ports) {
    for (const std::string& address : facts_->resolved) {
      queue_.push_back({address, port});
    }
  }
  std::ranges::reverse(queue_);
  AskNext();
}

void SearchingLink::AskNext() {
  if (!queue_.empty()) {
    const Candidate candidate = std::move(queue_.back());
    queue_.pop_back();
    return Ask(candidate);
  }
  if (binding_) {
    return ServeNext();
  }
  if (!options_.again && MayServe()) {
    binding_ = true;
    next_port_ = 0;
    return ServeNext();
  }
  Again();
}

// ---- as client

void SearchingLink::Ask(const Candidate& candidate) {
  Events events;
  events.message = [this](const HostMessage& message) { OnMessage(message); };
  events.lost = [this](const std::string& why) { OnLost(why); };
  timer_.expires_after(kAnswer);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const error_code& error) {
    if (!error && !alive.expired() && !connected_ && link_) {
      Unanswered(fmt::format("no answer within {} s", kAnswer.count()));
    }
  });
  last_problem_ = HostPort(candidate.address, candidate.port);
  link_ =
      MakeRemoteLink(loop_, candidate.address, candidate.port, std::move(events), options_.remote);
  link_->Send(*hello_);
}

void SearchingLink::OnMessage(const HostMessage& message) {
  if (!connected_) {
    const Refused* refused = std::get_if<Refused>(&message);
    if (refused != nullptr && IsOfAnotherRun(*refused)) {
      wrong_run_ = *refused;
      return Unanswered(refused->text);
    }
    connected_ = true;
    timer_.cancel();
  }
  const auto events = events_;  // outlives this object, which the receiver may destroy
  events->message(message);
}

/// A run without an identity that is over is not the one that is looked for.
bool SearchingLink::IsOfAnotherRun(const Refused& refused) const {
  return (refused.code == RefusalCode::kWrongRun && options_.ports.size() > 1) ||
         (refused.code == RefusalCode::kClosed && options_.rules.run_id.empty() && !options_.again);
}

void SearchingLink::OnLost(const std::string& why) {
  if (connected_) {
    const auto events = events_;
    events->lost(why);
  } else {
    Unanswered(why);
  }
}

void SearchingLink::Unanswered(const std::string& why) {
  last_problem_ += fmt::format(" ({})", why);
  link_.reset();
  timer_.cancel();
  const std::weak_ptr<bool> alive(alive_);
  Report(/*say=*/false);
  if (alive.expired()) {
    return;
  }
  After(std::chrono::milliseconds(0), &SearchingLink::AskNext);
}

// ---- as host

/// Takes the next port. One that is taken is asked for our run: another process of this machine may
/// have been faster.
void SearchingLink::ServeNext() {
  if (next_port_ == options_.ports.size()) {
    return Again();
  }
  const int port = options_.ports[next_port_++];
  auto host = std::make_unique<RunHost>(loop_, options_.rules, options_.timing, options_.note);
  const bool reached_otherwise = !OwnsAny(facts_->resolved, facts_->own);  // told by is_host
  Result<std::unique_ptr<RendezvousServer>> server =
      RendezvousServer::Listen(loop_,
                               *host,
                               reached_otherwise ? "::" : ChooseListenAddress(options_.host),
                               port,
                               options_.remote.trust);
  if (server.ok()) {
    return Serve(std::move(host), *std::move(server));
  }
  last_problem_ = server.status().message();
  for (const std::string& address : facts_->resolved) {
    queue_.push_back({address, port});
  }
  AskNext();
}

void SearchingLink::Serve(std::unique_ptr<RunHost> host, std::unique_ptr<RendezvousServer> server) {
  spdlog::debug("this node serves the rendezvous at {}", HostPort(options_.host, server->port()));
  host_ = std::move(host);
  server_ = std::move(server);
  connected_ = true;
  link_ = MakeLocalLink(loop_, *host_, OwnAddressAtEndpoint(), *events_);
  link_->Send(*hello_);
}

std::string SearchingLink::OwnAddressAtEndpoint() const {
  const auto own = std::ranges::find_if(facts_->resolved, [&](const std::string& address) {
    return OwnsAny({address}, facts_->own);
  });
  return own == facts_->resolved.end() ? options_.host : *own;
}

// ---- once more

void SearchingLink::Again() {
  if (options_.again) {
    const auto events = events_;
    return events->lost(Describe());
  }
  const bool patience_over = steady_clock::now() - since_ >= kPatience;
  if (patience_over && MayServe()) {
    const auto events = events_;
    return events->message(Refused{RefusalCode::kEndpoint, kExitRendezvousRefused, Describe()});
  }
  const std::weak_ptr<bool> alive(alive_);
  Report(/*say=*/patience_over);
  if (!alive.expired()) {
    const double uniform = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
    After(back_off_.Next(uniform), &SearchingLink::Resolve);
  }
}

/// What was tried so far; a join that times out at any moment can then explain itself.
void SearchingLink::Report(bool say) {
  if (const auto events = events_; events->searching) {
    events->searching(Describe(), say);
  }
}

void SearchingLink::After(std::chrono::milliseconds delay, void (SearchingLink::*step)()) {
  timer_.expires_after(delay);
  timer_.async_wait([this, step, alive = std::weak_ptr(alive_)](const error_code& error) {
    if (!error && !alive.expired()) {
      (this->*step)();
    }
  });
}

std::string SearchingLink::Describe() const {
  const int first = options_.ports.front();
  const int last = options_.ports.back();
  const std::string ports =
      first == last ? fmt::format("port {}", first) : fmt::format("ports {} to {}", first, last);
  if (MayServe()) {
    return fmt::format("{} is this node, but the rendezvous cannot be served there on {}: {}{}",
                       options_.host,
                       ports,
                       first == last ? DescribeBusyPort(first) + "; " : "",
                       last_problem_);
  }
  return fmt::format(
      "no node serves the rendezvous at {} ({}): {}; it resolves to {}, this node's addresses are "
      "{}, it uses {}TLS{}",
      options_.host,
      ports,
      last_problem_,
      ListOrNothing(facts_->resolved),
      ListOrNothing(facts_->own),
      options_.remote.trust.plan.tls_authorities.empty() ? "no " : "",
      wrong_run_ ? "; " + wrong_run_->text : "");
}

}  // namespace lr::launcher
