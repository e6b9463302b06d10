#include "launcher/rendezvous/membership.h"

#include <utility>

#include "launcher/rendezvous/local_link.h"
#include "launcher/rendezvous/node_agent.h"
#include "launcher/rendezvous/run_host.h"

namespace lr::launcher {
namespace {

/// Host and node in one process, nothing else: a standalone run.
class StandaloneLink : public HostLink {
 public:
  StandaloneLink(boost::asio::io_context& loop, RunRules rules, Events events)
      : host_(loop, std::move(rules), RunTiming{}, nullptr),
        link_(MakeLocalLink(loop, host_, "127.0.0.1", std::move(events))) {}

  void Send(NodeMessage message) override { link_->Send(std::move(message)); }

 private:
  RunHost host_;
  std::unique_ptr<HostLink> link_;
};

}  // namespace

Result<std::unique_ptr<Membership>> Membership::Start(boost::asio::io_context& loop,
                                                      NodeIdentity identity,
                                                      RendezvousEndpoint endpoint,
                                                      Events events) {
  if (endpoint.standalone != (identity.max_nodes == 1)) {
    return InvalidArgument("a rendezvous of {} nodes {} be standalone",
                           identity.max_nodes,
                           endpoint.standalone ? "cannot" : "must");
  }
  auto facts = std::make_shared<EndpointFacts>();
  const RunRules rules{identity.run_id, identity.max_nodes, false};
  auto agent = std::make_unique<NodeAgent>(
      loop, std::move(identity), std::move(endpoint), std::move(events), facts);
  agent->Join([&loop, rules](HostLink::Events link_events) -> std::unique_ptr<HostLink> {
    return std::make_unique<StandaloneLink>(loop, rules, std::move(link_events));
  });
  return std::unique_ptr<Membership>(std::move(agent));
}

}  // namespace lr::launcher
