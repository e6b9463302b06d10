#pragma once
/// How this product uses gRPC: the few settings that every channel and server of ours shares. Any
/// thread; nothing here starts gRPC by itself.

#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>

namespace lr::rpc {

/// gRPC's own log lines go to our log at debug level instead of straight to stderr. Idempotent;
/// called by everything below.
void RouteGrpcLogs();

/// Keeps the queue on which gRPC runs all callbacks of a process until that process ends. gRPC 1.51
/// takes it down with the last channel or server, and its own threads may still be inside: a
/// process that opens and closes channels aborts now and then. Idempotent; called by everything
/// below.
void HoldCallbackQueue();

/// Debian's Abseil looks for cycles among all of gRPC's locks whenever one is taken, to abort on
/// possible deadlocks: a debugging aid that takes a tenth of gRPC's time. Off from here on.
/// Idempotent; called by everything below.
void SkipLockOrderChecks();

/// A channel of its own (connections and back-off are not shared with other channels of the
/// process), never through a proxy, without keep-alive: who is silent is judged by our messages.
/// `target`: "unix:/path", "ipv4:10.0.0.1:29501", "ipv6:[::1]:29501".
/// `security`: null credentials mean none.
struct ChannelSecurity {
  std::shared_ptr<grpc::ChannelCredentials> credentials = {};
  std::string peer_name = {};  ///< that the other side's certificate must bear; empty: the target's
};

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           int largest_reply,
                                           const ChannelSecurity& security = {});

/// Limits of a server of ours. A port belongs to one process: no address is shared.
void ConfigureServer(grpc::ServerBuilder& builder, int largest_request);

/// "ipv4:10.0.0.4:4711" -> "10.0.0.4", "ipv6:%5Bfe80::1%5D:7" -> "fe80::1"; anything else -> "".
std::string AddressOfPeer(const std::string& peer);

/// The target of a TCP address: a literal is dialled as it is, a name goes through the resolver.
std::string TcpTarget(const std::string& host, int port);

}  // namespace lr::rpc
