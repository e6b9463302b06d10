#include "worker/accelerator/topology.h"

#include "tests/support/status_matchers.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

ParallelismConfig Degrees(int64_t replicate, int64_t shard) {
  ParallelismConfig degrees;
  degrees.dp_replicate = replicate;
  degrees.dp_shard = shard;
  return degrees;
}

struct Case {
  const char* name;
  int64_t replicate;
  int64_t shard;
  int64_t world_size;
  Topology expected;
};

class ResolvesTo : public ::testing::TestWithParam<Case> {};

TEST_P(ResolvesTo, Topology) {
  const Case& c = GetParam();
  const auto resolved =
      ResolveTopology({.parallelism = Degrees(c.replicate, c.shard), .world_size = c.world_size});
  ASSERT_THAT(resolved, IsOk());
  EXPECT_EQ(resolved->topology, c.expected);
  EXPECT_EQ(resolved->topology.dp_world_size(), c.world_size);
  EXPECT_EQ(resolved->note, "");
}

INSTANTIATE_TEST_SUITE_P(TopologyTest,
                         ResolvesTo,
                         ::testing::Values(Case{"plain", 1, 1, 1, {1, 1, false}},
                                           Case{"ddp_by_default", 1, 1, 4, {4, 1, false}},
                                           Case{"ddp_stated", 4, 1, 4, {4, 1, false}},
                                           Case{"fsdp", 1, 4, 4, {1, 4, true}},
                                           Case{"fsdp_of_all", 1, -1, 4, {1, 4, true}},
                                           Case{"fsdp_of_one_process", 1, -1, 1, {1, 1, true}},
                                           Case{"hsdp", 2, 8, 16, {2, 8, true}},
                                           Case{"hsdp_filled_in", 2, -1, 16, {2, 8, true}}),
                         [](const auto& info) { return info.param.name; });

TEST(TopologyTest, AOneProcessShardRunIsRecordedAsNotSharded) {
  const auto resolved = ResolveTopology({.parallelism = Degrees(1, -1), .world_size = 1});
  ASSERT_THAT(resolved, IsOk());
  EXPECT_TRUE(resolved->topology.uses_sharded_engine);
  EXPECT_FALSE(resolved->topology.sharded());
}

TEST(TopologyTest, EchoesEveryDegreeAndTheWorldSize) {
  EXPECT_THAT(ResolveTopology({.parallelism = Degrees(2, 2), .world_size = 3}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("dp_replicate=2 * dp_shard=2 * ring_degree=1 * "
                                       "ulysses_degree=1 * cfg_parallel=1 != WORLD_SIZE=3"))));
}

TEST(TopologyTest, NamesBothNumbersWhenTheRestDoesNotDivide) {
  EXPECT_THAT(ResolveTopology({.parallelism = Degrees(3, -1), .world_size = 4}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("dp_replicate=3"))));
}

TEST(TopologyTest, RefusesDegreesBelowOneAndAbsurdOnes) {
  EXPECT_THAT(ResolveTopology({.parallelism = Degrees(0, 1), .world_size = 1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("dp_replicate=0")));
  EXPECT_THAT(ResolveTopology({.parallelism = Degrees(1, -2), .world_size = 1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("dp_shard=-2")));
  EXPECT_THAT(ResolveTopology({.parallelism = Degrees(INT64_MAX, INT64_MAX), .world_size = 2}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("WORLD_SIZE=2")));
}

TEST(TopologyTest, AResumedDdpDegreeFollowsTheNewWorld) {
  const auto resolved =
      ResolveTopology({.parallelism = Degrees(2, 1), .world_size = 1, .resumed = true});
  ASSERT_THAT(resolved, IsOk());
  EXPECT_EQ(resolved->topology, (Topology{1, 1, false}));
  EXPECT_THAT(resolved->note, HasSubstr("2 -> 1"));
}

TEST(TopologyTest, AnExplicitDegreeIsCheckedAlsoOnResume) {
  EXPECT_THAT(ResolveTopology({.parallelism = Degrees(2, 1),
                               .world_size = 1,
                               .resumed = true,
                               .dp_replicate_given = true}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("WORLD_SIZE=1")));
}

TEST(TopologyTest, AResumedShardDegreeIsNotGuessed) {
  EXPECT_THAT(
      ResolveTopology({.parallelism = Degrees(1, 4), .world_size = 2, .resumed = true}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("replaced by --parallelism.* flags")));
}

}  // namespace
}  // namespace lr::worker
