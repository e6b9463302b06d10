// A collective names itself when a peer is gone, and under comparison when the members differ.
#include "worker/comm/collective.h"

#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/shard_groups.h"
#include "worker/comm/shard_groups.h"

namespace lr::worker {
namespace {

using lr::testing::MakeShardGroups;
using lr::testing::RunRankThreads;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The text of an `Error` that `body` throws.
template <typename Error, typename Body>
std::string Thrown(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(CollectiveTest, ComparedCollectivesGiveTheSameResults) {
  RunRankThreads(4, [](const auto& store, int rank) {
    ShardGroups groups = MakeShardGroups(store, rank, 2, 2);
    groups.compared = std::make_shared<ComparedStarts>();
    at::Tensor sum = at::full({3}, rank, at::kFloat);
    SumOverWorld(groups, "ranks", sum);
    EXPECT_TRUE(at::equal(sum, at::full({3}, 6.0F)));
    at::Tensor rows = at::full({2, 1}, rank, at::kFloat);
    PendingReduction reduction(groups, "unit 'a'", rows);
    at::Tensor buffer = at::zeros({2}, at::kByte);
    buffer[groups.shard_rank] = rank;
    Collective gather = StartGather(groups, "unit 'b'", buffer);
    EXPECT_EQ(reduction.Wait().item<float>(), 6.0F);
    gather.Wait();
    EXPECT_EQ(buffer[0].item<int>(), rank / 2 * 2);
    EXPECT_EQ(buffer[1].item<int>(), rank / 2 * 2 + 1);
  });
}

TEST(CollectiveTest, MembersThatStartDifferentOnesAreToldBoth) {
  RunRankThreads(2, [](const auto& store, int rank) {
    ShardGroups groups = MakeShardGroups(store, rank, 1, 2);
    groups.compared = std::make_shared<ComparedStarts>();
    at::Tensor buffer = at::zeros({8}, at::kByte);  // the same bytes: nothing else would notice
    const std::string unit = rank == 0 ? "unit 'blocks.1'" : "unit 'blocks.2'";
    EXPECT_THAT(Thrown<CollectiveMismatch>([&] { StartGather(groups, unit, buffer).Wait(); }),
                AllOf(HasSubstr("gather of unit 'blocks.1', 8 x Byte"),
                      HasSubstr("gather of unit 'blocks.2', 8 x Byte"),
                      HasSubstr(rank == 0 ? "member 0 starts gather of unit 'blocks.1'"
                                          : "member 1 starts gather of unit 'blocks.2'")));
  });
}

TEST(CollectiveTest, SizesAndTypesAreComparedToo) {
  RunRankThreads(2, [](const auto& store, int rank) {
    ShardGroups groups = MakeShardGroups(store, rank, 1, 2);
    groups.compared = std::make_shared<ComparedStarts>();
    at::Tensor values = at::zeros({rank == 0 ? 3 : 4}, at::kInt);
    EXPECT_THAT(Thrown<CollectiveMismatch>([&] { SumOverWorld(groups, "counts", values); }),
                AllOf(HasSubstr("sum of counts, 3 x Int"), HasSubstr("sum of counts, 4 x Int")));
    at::Tensor typed = at::zeros({2}, rank == 0 ? at::kInt : at::kFloat);
    EXPECT_THAT(Thrown<CollectiveMismatch>([&] { BroadcastOverWorld(groups, "it", typed); }),
                AllOf(HasSubstr("2 x Int"), HasSubstr("2 x Float")));
  });
}

TEST(CollectiveTest, APeerThatIsGoneIsSaidWithUnitOperationAndGroup) {
  std::latch gone(1);
  RunRankThreads(2, [&](const auto& store, int rank) {
    ShardGroups groups = MakeShardGroups(store, rank, 1, 2);
    at::Tensor values = at::zeros({2}, at::kFloat);
    SumOverWorld(groups, "nothing", values);
    if (rank == 1) {
      groups = {};
      gone.count_down();
      return;
    }
    gone.wait();
    EXPECT_THAT(Thrown<CollectiveError>([&] {
                  PendingReduction reduction(groups, "unit 'a'", at::zeros({2, 4}));
                  reduction.Wait();
                }),
                AllOf(HasSubstr("reduction of unit 'a' (collective "),
                      HasSubstr("of data, member 0 of 2): ")));
  });
}

TEST(CollectiveTest, OneMemberDoesNothing) {
  const ShardGroups alone;
  at::Tensor values = at::ones({2});
  SumOverWorld(alone, "it", values);
  Collective gather = StartGather(alone, "it", values);
  EXPECT_FALSE(gather.in_flight());
  gather.Wait();
  EXPECT_TRUE(at::equal(values, at::ones({2})));
}

}  // namespace
}  // namespace lr::worker
