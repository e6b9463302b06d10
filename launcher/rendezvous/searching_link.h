#pragma once
/// The link of a node in a run of several nodes: looks for the host at the endpoint, or becomes it
/// and from then on passes messages through.
///
///   resolve the endpoint's name -> ask every candidate port for our run
///     -> somebody answers: be its client
///     -> nobody, and the endpoint is this node's: take the first port that binds and serve;
///        a port that another process took meanwhile is asked again, so one machine has one host
///     -> nobody, and it is not ours: wait (back-off with jitter) and begin again
///
/// A server that answers for another run is passed over while other ports are left. Loop-confined;
/// owned by the NodeAgent; owns the host and its server when this node serves.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/rendezvous/back_off.h"
#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/remote_link.h"
#include "launcher/rendezvous/rendezvous_server.h"
#include "launcher/rendezvous/run_host.h"

namespace lr::launcher {

struct SearchOptions {
  std::string host;             ///< the endpoint's, as given
  std::vector<int> ports;       ///< candidates of the control port, in order
  std::optional<bool> is_host;  ///< nullopt: whoever has the endpoint's address
  RunRules rules;               ///< if this node serves
  RunTiming timing;
  std::function<void(const std::string&)> note;  ///< the host's decisions; may be empty
  RemoteOptions remote = {};  ///< how the host is spoken to, and how this node would serve
  bool again = false;  ///< after an epoch ran: one look for its host, which nobody may replace
};

/// Eight control ports to try, from `first` on: several runs of one machine each find their own by
/// its identity.
std::vector<int> CandidatePorts(int first);

class SearchingLink : public HostLink {
 public:
  SearchingLink(boost::asio::io_context& loop,
                SearchOptions options,
                std::shared_ptr<EndpointFacts> facts,
                Events events);
  ~SearchingLink() override;

  /// The first message must be the Hello: it starts the search. Others need a connection and are
  /// dropped without one: before the host knows this node there is nothing to tell it.
  void Send(NodeMessage message) override;

 private:
  struct Candidate {
    std::string address;
    int port = 0;
  };

  void Resolve();
  void AskAll();
  void AskNext();
  void Ask(const Candidate& candidate);
  void OnMessage(const HostMessage& message);
  bool IsOfAnotherRun(const Refused& refused) const;
  void OnLost(const std::string& why);
  void Unanswered(const std::string& why);
  void ServeNext();
  void Serve(std::unique_ptr<RunHost> host, std::unique_ptr<RendezvousServer> server);
  void Again();
  void Report(bool say);
  void After(std::chrono::milliseconds delay, void (SearchingLink::*step)());
  bool MayServe() const;
  std::string Describe() const;
  std::string OwnAddressAtEndpoint() const;

  boost::asio::io_context& loop_;
  const SearchOptions options_;
  const std::shared_ptr<EndpointFacts> facts_;
  const std::shared_ptr<const Events> events_;
  std::optional<Hello> hello_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer timer_;
  std::minstd_rand random_{std::random_device{}()};
  BackOff back_off_;
  std::chrono::steady_clock::time_point since_;
  std::vector<Candidate> queue_;  ///< still to ask, last one first
  size_t next_port_ = 0;          ///< to bind, while serving is tried
  bool binding_ = false;
  bool connected_ = false;
  std::string last_problem_;  ///< of the last candidate asked
  std::optional<Refused> wrong_run_;
  std::unique_ptr<RunHost> host_;
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<HostLink> link_;  ///< to the candidate being asked, or the host
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lr::launcher
