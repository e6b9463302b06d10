// Which addresses are this machine's, and which one is advertised.
#include "launcher/rendezvous/endpoint_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/rendezvous/back_off.h"
#include "launcher/rendezvous/clock_offset.h"

namespace lr::launcher {
namespace {

const std::vector<std::string> kOwn = {"127.0.0.1", "fe80::5", "169.254.1.1", "10.0.1.7", "::1"};

AddressFacts SeveralNodes(const std::string& host, const std::vector<std::string>& resolved) {
  AddressFacts facts;
  facts.given_host = host;
  facts.resolved = resolved;
  facts.own = kOwn;
  return facts;
}

TEST(EndpointChoiceTest, LoopbackInAllSpellings) {
  for (const char* address : {"localhost", "127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"10.127.0.1", "node127", "::2", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(EndpointChoiceTest, OwnsEveryLoopbackAndItsInterfaces) {
  EXPECT_TRUE(OwnsAny({"10.0.1.7"}, kOwn));
  EXPECT_TRUE(OwnsAny({"192.168.0.1", "10.0.1.7"}, kOwn));
  EXPECT_TRUE(OwnsAny({"127.0.1.1"}, kOwn));
  EXPECT_FALSE(OwnsAny({"10.0.1.8"}, kOwn));
  EXPECT_FALSE(OwnsAny({}, kOwn));
}

TEST(EndpointChoiceTest, OneNodeUsesWhatIsGivenElseLoopback) {
  AddressFacts facts;
  facts.one_node = true;
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "localhost") << "as torchrun has it";
  facts.local_addrs = {"10.0.1.7"};
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "10.0.1.7");
  facts.given_host = "head";
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "head");
}

TEST(EndpointChoiceTest, TheGivenNameIsNeverReplacedByWhatItResolvesTo) {
  const AddressChoice choice = ChooseWorkerAddress(SeveralNodes("node0.cluster", {"10.0.1.7"}));
  EXPECT_EQ(choice.address, "node0.cluster");
  EXPECT_THAT(choice.reason, ::testing::HasSubstr("as given"));
}

TEST(EndpointChoiceTest, ForeignEndpointFallsBackInOrder) {
  AddressFacts facts = SeveralNodes("head", {"10.0.1.1"});
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "10.0.1.7") << "first that is not local";
  facts.seen_from = "127.0.0.1";
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "10.0.1.7");
  facts.seen_from = "192.168.9.9";
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "192.168.9.9");
  facts.local_addrs = {"10.9.9.9"};
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "10.9.9.9");
  AddressFacts alone = SeveralNodes("head", {"10.0.1.1"});
  alone.own = {"127.0.0.1", "fe80::1"};
  EXPECT_EQ(ChooseWorkerAddress(alone).address, "127.0.0.1");
}

TEST(EndpointChoiceTest, AlternativesAreTheOtherGivenAddressesElseAllThatAreNotLocal) {
  AddressFacts facts = SeveralNodes("head", {"10.0.1.1"});
  facts.seen_from = "192.168.9.9";
  facts.own = {"127.0.0.1", "::1", "fe80::1%eth0", "192.168.9.9", "10.0.1.7", "fd00::7"};
  EXPECT_THAT(AlternativeAddresses(facts, ChooseWorkerAddress(facts)),
              ::testing::ElementsAre("10.0.1.7", "fd00::7"));
  facts.local_addrs = {"10.9.9.9", "10.9.9.8", "10.9.9.9"};
  EXPECT_THAT(AlternativeAddresses(facts, ChooseWorkerAddress(facts)),
              ::testing::ElementsAre("10.9.9.8"));
  facts.one_node = true;
  EXPECT_THAT(AlternativeAddresses(facts, ChooseWorkerAddress(facts)), ::testing::IsEmpty());
}

TEST(EndpointChoiceTest, AnEndpointGivenAsThisNodesHasNoOthersButThoseGiven) {
  AddressFacts facts = SeveralNodes("node0", {"10.0.1.7"});
  EXPECT_THAT(AlternativeAddresses(facts, ChooseWorkerAddress(facts)), ::testing::IsEmpty());
  facts.local_addrs = {"10.9.9.9"};
  EXPECT_THAT(AlternativeAddresses(facts, ChooseWorkerAddress(facts)),
              ::testing::ElementsAre("10.9.9.9"));
}

TEST(EndpointChoiceTest, ReverseLookUpNamesAreNotAdvertised) {
  AddressFacts facts = SeveralNodes("7.1.0.10.in-addr.arpa", {"10.0.1.7"});
  EXPECT_EQ(ChooseWorkerAddress(facts).address, "10.0.1.7");
}

TEST(EndpointChoiceTest, ListensOnTheLiteralAddressOrEverywhere) {
  EXPECT_EQ(ChooseListenAddress("10.0.1.7"), "10.0.1.7");
  EXPECT_EQ(ChooseListenAddress("fe80::1"), "fe80::1");
  EXPECT_EQ(ChooseListenAddress("localhost"), "127.0.0.1");
  EXPECT_EQ(ChooseListenAddress("node0"), "::");
}

TEST(EndpointChoiceTest, BracketsOnlyIpv6) {
  EXPECT_EQ(HostPort("10.0.0.4", 1), "10.0.0.4:1");
  EXPECT_EQ(HostPort("fe80::1", 29500), "[fe80::1]:29500");
}

TEST(BackOffTest, DoublesToTheCapWithFullJitter) {
  BackOff back_off;
  EXPECT_EQ(back_off.Next(0.5).count(), 50);
  EXPECT_EQ(back_off.Next(0.5).count(), 100);
  for (int i = 0; i < 10; ++i) {
    const auto wait = back_off.Next(0.999);
    EXPECT_LT(wait.count(), 5000);
  }
  EXPECT_EQ(back_off.Next(0.0).count(), 0);
  EXPECT_EQ(back_off.Next(0.5).count(), 2500);
  back_off.Reset();
  EXPECT_EQ(back_off.Next(0.5).count(), 50);
}

TEST(ClockOffsetTest, TrustsTheShortestRoundTrip) {
  ClockOffset clock;
  EXPECT_EQ(clock.ToHost(100), 100);
  clock.Sample(1000, 51'500, 2000);  // 1000 ns under way, host 50 000 ahead
  EXPECT_EQ(clock.ToHost(0), 50'000);
  clock.Sample(3000, 99'000, 9000);  // slower: ignored
  EXPECT_EQ(clock.ToHost(0), 50'000);
  clock.Sample(10'000, 60'060, 10'100);  // faster: better
  EXPECT_EQ(clock.ToHost(0), 50'010);
  clock.Sample(10'000, 0, 9'000);  // the clock was set back meanwhile
  EXPECT_EQ(clock.ToHost(0), 50'010);
}

}  // namespace
}  // namespace lr::launcher
