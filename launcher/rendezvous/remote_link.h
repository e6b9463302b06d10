#pragma once
/// A node's stream of messages to a host in another process. Before the host's first answer there
/// is one attempt to connect and no retry. After it a connection that breaks is made anew (3.9):
///
///   broken -> ask the host's port: refused     -> the host is gone: lost, at once
///                                  connected   -> resume: each side sends what the other lacks
///                                  no answer   -> again, with back-off, up to a limit
///
/// so that a cut of a few seconds is not seen behind this interface. Loop-confined.

#include <chrono>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/trust.h"

namespace lr::launcher {

struct RemoteOptions {
  std::chrono::milliseconds resume_within{60'000};  ///< a broken connection
  Trust trust = {};
};

/// Connects to `host` (a literal; names work, too) and port. What is sent before the connection
/// stands is queued. No answer within 3 s, a host that ended the stream or is gone, an unusable
/// message, and a break of more than `resume_within` end in events.lost with the reason. The
/// destructor gives queued messages 100 ms to leave.
std::unique_ptr<HostLink> MakeRemoteLink(boost::asio::io_context& loop,
                                         const std::string& host,
                                         int port,
                                         HostLink::Events events,
                                         RemoteOptions options = {});

}  // namespace lr::launcher
