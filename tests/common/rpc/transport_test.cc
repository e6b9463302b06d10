// Addresses as gRPC writes them.
#include "common/rpc/transport.h"

#include <gtest/gtest.h>

namespace lr::rpc {
namespace {

TEST(TransportTest, LiteralsAreDialledAsTheyAre) {
  EXPECT_EQ(TcpTarget("10.0.0.4", 29501), "ipv4:10.0.0.4:29501");
  EXPECT_EQ(TcpTarget("::1", 7), "ipv6:%5B::1%5D:7");
  EXPECT_EQ(TcpTarget("fe80::1%eth0", 7), "ipv6:%5Bfe80::1%25eth0%5D:7");
  EXPECT_EQ(TcpTarget("node-1.cluster", 7), "dns:///node-1.cluster:7");
}

TEST(TransportTest, ThePeersAddressIsReadFromWhatGrpcSays) {
  EXPECT_EQ(AddressOfPeer("ipv4:10.0.0.4:4711"), "10.0.0.4");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B::1%5D:7"), "::1");
  EXPECT_EQ(AddressOfPeer("ipv6:[fd00::2]:7"), "fd00::2");
  EXPECT_EQ(AddressOfPeer("ipv6:%5Bfe80::1%25eth0%5D:7"), "fe80::1%eth0");
  EXPECT_EQ(AddressOfPeer("unix:/tmp/x"), "");
  EXPECT_EQ(AddressOfPeer("ipv4:"), "");
  EXPECT_EQ(AddressOfPeer(""), "");
}

}  // namespace
}  // namespace lr::rpc
