#include "common/rpc/transport.h"

#include <absl/synchronization/mutex.h>
#include <arpa/inet.h>
#include <grpc/support/log.h>
#include <mutex>

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <spdlog/spdlog.h>

namespace lr::rpc {
namespace {

void Log(gpr_log_func_args* line) {
  spdlog::debug("grpc: {}", line->message);
}

bool IsLiteral(const std::string& host, int family) {
  unsigned char address[sizeof(in6_addr)];
  const std::string without_zone = host.substr(0, host.find('%'));
  return inet_pton(family, without_zone.c_str(), address) == 1;
}

}  // namespace

void RouteGrpcLogs() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(Log);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  });
}

void HoldCallbackQueue() {
  struct Call {
    std::shared_ptr<grpc::Channel> nowhere = grpc::CreateCustomChannel("", nullptr, {});
    grpc::GenericStub stub{nowhere};
    grpc::ClientContext context;
    grpc::Slice nothing;
    grpc::ByteBuffer request{&nothing, 1};
    grpc::ByteBuffer reply;
  };

  // Held, never destroyed: it holds the queue until the process ends.
  [[maybe_unused]] static const Call* const held = [] {
    auto* call = new Call;
    call->stub.UnaryCall(
        &call->context, "/lr/nowhere", {}, &call->request, &call->reply, [](grpc::Status) {});
    return call;
  }();
}

void SkipLockOrderChecks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           int largest_reply,
                                           const ChannelSecurity& security) {
  RouteGrpcLogs();
  SkipLockOrderChecks();
  HoldCallbackQueue();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(largest_reply);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  if (!security.credentials) {
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  }
  if (!security.peer_name.empty()) {
    arguments.SetSslTargetNameOverride(security.peer_name);
  }
  return grpc::CreateCustomChannel(target, security.credentials, arguments);
}

void ConfigureServer(grpc::ServerBuilder& builder, int largest_request) {
  RouteGrpcLogs();
  SkipLockOrderChecks();
  HoldCallbackQueue();
  builder.SetMaxReceiveMessageSize(largest_request);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

std::string AddressOfPeer(const std::string& peer) {
  const size_t scheme = peer.find(':');
  const size_t port = peer.rfind(':');
  if (scheme == port || (!peer.starts_with("ipv4:") && !peer.starts_with("ipv6:"))) {
    return "";
  }
  std::string address = peer.substr(scheme + 1, port - scheme - 1);
  for (const std::string_view open : {"%5B", "["}) {
    if (address.starts_with(open)) {
      address.erase(0, open.size());
    }
  }
  for (const std::string_view close : {"%5D", "]"}) {
    if (address.ends_with(close)) {
      address.erase(address.size() - close.size());
    }
  }
  if (const size_t zone = address.find("%25"); zone != std::string::npos) {
    address.erase(zone + 1, 2);
  }
  return address;
}

std::string TcpTarget(const std::string& host, int port) {
  if (IsLiteral(host, AF_INET)) {
    return fmt::format("ipv4:{}:{}", host, port);
  }
  if (IsLiteral(host, AF_INET6)) {
    const size_t zone = host.find('%');  // percent-encoded in a target
    const std::string encoded =
        zone == std::string::npos ? host : host.substr(0, zone) + "%25" + host.substr(zone + 1);
    return fmt::format("ipv6:%5B{}%5D:{}", encoded, port);
  }
  return fmt::format("dns:///{}:{}", host, port);
}

}  // namespace lr::rpc
