// Codes cross the wire unchanged, and people are told the reason, not gRPC's layers.
#include "common/rpc/grpc_status.h"

#include <gtest/gtest.h>

namespace lr::rpc {
namespace {

TEST(GrpcStatusTest, EveryCodeSurvivesTheWayThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    const Status status =
        code == 0 ? Status() : Status(static_cast<StatusCode>(code), "rank 3 is silent");
    const Status back = FromGrpc(ToGrpc(status));
    EXPECT_EQ(back.code(), status.code());
    EXPECT_EQ(back.message(), status.message());
  }
}

TEST(GrpcStatusTest, ACodeOfNobodyIsUnknown) {
  EXPECT_EQ(FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(99), "x")).code(),
            StatusCode::kUnknown);
}

TEST(GrpcStatusTest, ARefusedConnectionIsSaidInItsOwnWords) {
  const grpc::Status wrapped(grpc::StatusCode::UNAVAILABLE,
                             "failed to connect to all addresses; last error: UNKNOWN: "
                             "ipv4:127.0.0.1:5: Failed to connect to remote host: Connection "
                             "refused");
  EXPECT_EQ(FromGrpc(wrapped).message(), "Connection refused");
}

}  // namespace
}  // namespace lr::rpc
