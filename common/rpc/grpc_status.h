#pragma once
/// Status on the wire: the codes are the same numbers on both sides. Any thread.

#include <grpcpp/support/status.h>

#include "common/base/status.h"

namespace lr::rpc {

grpc::Status ToGrpc(const Status& status);

/// Says in plain words what gRPC wraps: "connection refused" rather than its chain of layers.
Status FromGrpc(const grpc::Status& status);

}  // namespace lr::rpc
