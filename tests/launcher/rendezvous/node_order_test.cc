// Node ranks from what the nodes say of themselves.
#include "launcher/rendezvous/node_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

OrderCandidate Node(std::optional<int> rank,
                    const char* host,
                    int arrival = 0,
                    bool serves = false) {
  return {rank, serves, host, arrival};
}

constexpr std::nullopt_t none = std::nullopt;

TEST(NodeOrderTest, ExplicitRanksDecideWhenTheyAreOneEach) {
  const NodeOrder order = OrderNodes({Node(2, "a"), Node(0, "b"), Node(1, "c")});
  EXPECT_THAT(order.order, ElementsAre(1, 2, 0));
  EXPECT_EQ(order.reason, "explicit node ranks");
  EXPECT_THAT(order.warning, IsEmpty());
}

TEST(NodeOrderTest, RanksThatAllWereLeftAtZeroAreIgnoredWithOneWarning) {
  const NodeOrder order = OrderNodes({Node(0, "b"), Node(0, "a")});
  EXPECT_THAT(order.order, ElementsAre(1, 0));
  EXPECT_THAT(order.warning, HasSubstr("not 0 to 1 once each"));
}

TEST(NodeOrderTest, ThenTheServingNodeThenNaturalNamesThenArrival) {
  const NodeOrder order = OrderNodes({Node(none, "node10", 0),
                                      Node(none, "node2", 1),
                                      Node(none, "node7", 2, true),
                                      Node(none, "node2", 3)});
  EXPECT_THAT(order.order, ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(order.warning, IsEmpty());
}

TEST(NodeOrderTest, DigitRunsCompareAsNumbersOfAnyLength) {
  EXPECT_TRUE(NaturalLess("node2", "node10"));
  EXPECT_FALSE(NaturalLess("node10", "node2"));
  EXPECT_TRUE(NaturalLess("a09b", "a10a"));
  EXPECT_TRUE(NaturalLess("n99999999999999999999998", "n99999999999999999999999"));
  EXPECT_TRUE(NaturalLess("a", "ab"));
  EXPECT_FALSE(NaturalLess("a007", "a7"));
  EXPECT_FALSE(NaturalLess("a7", "a007"));
}

}  // namespace
}  // namespace lr::launcher
