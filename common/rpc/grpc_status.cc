#include "common/rpc/grpc_status.h"

#include <string>
#include <string_view>

namespace lr::rpc {
namespace {

/// gRPC 1.51 reports a failed connection as "failed to connect to all addresses; last error:
/// UNKNOWN: ipv4:127.0.0.1:5: Failed to connect to remote host: Connection refused".
std::string PlainWords(const std::string& message) {
  constexpr std::string_view kConnect = "Failed to connect to remote host: ";
  const size_t at = message.rfind(kConnect);
  return at == std::string::npos ? message : message.substr(at + kConnect.size());
}

}  // namespace

grpc::Status ToGrpc(const Status& status) {
  return status.ok() ? grpc::Status::OK
                     : grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message());
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) {
    return {};
  }
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(StatusCode::kUnauthenticated);
  return {known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
          PlainWords(status.error_message())};
}

}  // namespace lr::rpc
