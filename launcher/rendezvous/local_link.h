#pragma once
/// The stream of the host's own node: both ends in one process, messages are posted to the event
/// loop in order. Also all there is of a standalone run: no socket, no gRPC.

#include <memory>

#include <boost/asio/io_context.hpp>

#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/run_host.h"

namespace lr::launcher {

/// `host` must outlive the link. `address`: where peers reach this node.
std::unique_ptr<HostLink> MakeLocalLink(boost::asio::io_context& loop,
                                        RunHost& host,
                                        std::string address,
                                        HostLink::Events events);

}  // namespace lr::launcher
