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

OrderCandidate Survivor(int last_rank, const char* host) {
  OrderCandidate candidate = Node(std::nullopt, host);
  candidate.last_rank = last_rank;
  return candidate;
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

TEST(NodeOrderTest, SurvivorsKeepTheirRanksAndNewcomersTakeTheHoles) {
  const NodeOrder order = OrderNodes(
      {Node(none, "a"), Survivor(3, "b"), Survivor(0, "c"), Survivor(1, "d"), Node(none, "e")});
  EXPECT_THAT(order.order, ElementsAre(2, 3, 0, 1, 4));
  EXPECT_THAT(order.reason, HasSubstr("epoch before"));
  EXPECT_THAT(order.warning, IsEmpty());
}

TEST(NodeOrderTest, SurvivorsOfALargerRunCloseRanksInOrder) {
  EXPECT_THAT(OrderNodes({Survivor(5, "a"), Survivor(2, "b")}).order, ElementsAre(1, 0));
  EXPECT_THAT(OrderNodes({Survivor(1, "a"), Survivor(7, "b"), Node(none, "c")}).order,
              ElementsAre(2, 0, 1));
  EXPECT_THAT(OrderNodes({Survivor(0, "z"), Survivor(1, "a"), Survivor(2, "b")}).order,
              ElementsAre(0, 1, 2));
}

TEST(NodeOrderTest, TheSchedulersNumbersComeBeforeNamesWhenTheyAreDifferent) {
  std::vector<OrderCandidate> nodes = {
      Node(none, "a", 0, true), Node(none, "b", 1), Node(none, "c", 2)};
  nodes[0].scheduler_index = 7;
  nodes[1].scheduler_index = 4;
  nodes[2].scheduler_index = 5;
  EXPECT_THAT(OrderNodes(nodes).order, ElementsAre(1, 2, 0));
  EXPECT_EQ(OrderNodes(nodes).reason, "the scheduler's numbers");
  nodes[2].scheduler_index = 7;  // launchers of two steps
  EXPECT_THAT(OrderNodes(nodes).order, ElementsAre(0, 1, 2));
  nodes[2].scheduler_index.reset();
  EXPECT_THAT(OrderNodes(nodes).order, ElementsAre(0, 1, 2));
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
