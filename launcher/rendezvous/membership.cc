#include "launcher/rendezvous/membership.h"

#include <random>
#include <utility>

#include "launcher/rendezvous/local_link.h"
#include "launcher/rendezvous/machine_addresses.h"
#include "launcher/rendezvous/node_agent.h"
#include "launcher/rendezvous/run_host.h"
#include "launcher/rendezvous/searching_link.h"

namespace lr::launcher {
namespace {

/// Host and node in one process, nothing else: a standalone run.
class StandaloneLink : public HostLink {
 public:
  StandaloneLink(boost::asio::io_context& loop, const SearchOptions& options, Events events)
      : host_(loop, options.rules, options.timing, options.note),
        link_(MakeLocalLink(loop, host_, "127.0.0.1", std::move(events))) {}

  void Send(NodeMessage message) override { link_->Send(std::move(message)); }

 private:
  RunHost host_;
  std::unique_ptr<HostLink> link_;
};

std::vector<int> ControlPorts(const RendezvousEndpoint& endpoint) {
  if (endpoint.control_port == 0) {
    return CandidatePorts(endpoint.worker_port + 1);
  }
  return endpoint.control_port_explicit ? std::vector{endpoint.control_port}
                                        : CandidatePorts(endpoint.control_port);
}

Status Check(const NodeIdentity& identity, const RendezvousEndpoint& endpoint) {
  if (endpoint.standalone != (identity.max_nodes == 1)) {
    return InvalidArgument("a rendezvous of {} nodes {} be standalone",
                           identity.max_nodes,
                           endpoint.standalone ? "cannot" : "must");
  }
  if (identity.min_nodes < 1 || identity.max_nodes < identity.min_nodes ||
      identity.max_nodes > kMaxNodes) {
    return InvalidArgument("--nnodes={}:{}: a run has 1 to {} nodes",
                           identity.min_nodes,
                           identity.max_nodes,
                           kMaxNodes);
  }
  if (!endpoint.standalone && (endpoint.host.empty() || ControlPorts(endpoint).empty())) {
    return InvalidArgument("worker port {} of '{}' leaves no port above it for the rendezvous",
                           endpoint.worker_port,
                           endpoint.host);
  }
  return {};
}

SearchOptions MakeOptions(const NodeIdentity& identity,
                          const RendezvousEndpoint& endpoint,
                          const Membership::Events& events) {
  SearchOptions options;
  options.host = endpoint.host;
  options.ports = ControlPorts(endpoint);
  options.rules.run_id = identity.run_id;
  options.rules.min_nodes = identity.min_nodes;
  options.rules.max_nodes = identity.max_nodes;
  options.rules.native = endpoint.native;
  options.rules.output_dir = endpoint.output_dir;
  // The static rendezvous is the one whose endpoint is that of the workers.
  options.rules.strict_ranks = endpoint.worker_port != 0;
  options.is_host = endpoint.is_host;
  options.rules.policy = endpoint.policy;
  options.rules.seed = std::random_device{}();
  options.timing.join = endpoint.join_timeout;
  options.timing.commit = endpoint.times.commit;
  options.timing.suspect = endpoint.times.suspect;
  options.timing.lost = endpoint.times.lost;
  options.timing.last_call = endpoint.times.last_call;
  options.timing.reform_last_call = endpoint.times.reform_last_call;
  options.timing.stop = endpoint.policy.stop_limit;
  options.remote.resume_within = endpoint.times.host_lost;
  options.note = events.note;
  return options;
}

}  // namespace

Result<std::unique_ptr<Membership>> Membership::Start(boost::asio::io_context& loop,
                                                      NodeIdentity identity,
                                                      RendezvousEndpoint endpoint,
                                                      Events events) {
  LR_TRY(Check(identity, endpoint));
  auto facts = std::make_shared<EndpointFacts>();
  const bool standalone = endpoint.standalone;
  SearchOptions options = MakeOptions(identity, endpoint, events);
  if (!standalone) {
    LR_ASSIGN(options.remote.trust, ReadTrust(endpoint.trust, endpoint.host));
    facts->own = OwnAddresses();
  }
  auto agent = std::make_unique<NodeAgent>(
      loop, std::move(identity), std::move(endpoint), std::move(events), facts);
  agent->Join([&loop, options, facts, standalone](HostLink::Events link_events,
                                                  bool again) -> std::unique_ptr<HostLink> {
    if (standalone) {
      return std::make_unique<StandaloneLink>(loop, options, std::move(link_events));
    }
    SearchOptions search = options;
    search.again = again;
    return std::make_unique<SearchingLink>(loop, search, facts, std::move(link_events));
  });
  return std::unique_ptr<Membership>(std::move(agent));
}

}  // namespace lr::launcher
