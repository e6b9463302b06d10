#pragma once
/// A node's gRPC stream to a host in another process: one attempt to connect, no retry of its own.

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "launcher/rendezvous/node_link.h"

namespace lr::launcher {

/// Connects to `host` (a literal; names work, too) and port. What is sent before the connection
/// stands is queued. No answer within 3 s, a broken stream and an unusable message end in
/// events.lost with the reason. The destructor gives queued messages 100 ms to leave.
std::unique_ptr<HostLink> MakeRemoteLink(boost::asio::io_context& loop,
                                         const std::string& host,
                                         int port,
                                         HostLink::Events events);

}  // namespace lr::launcher
