#include "worker/comm/communicator.h"

#include <ATen/ops/full.h>

#include "tests/support/rank_threads.h"
#include "tests/support/status_matchers.h"
#include "worker/comm/local_address.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::MakeGloo;
using ::lr::testing::RunRanks;
using ::lr::testing::RunRankThreads;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommunicatorTest : public ::testing::TestWithParam<int> {};

TEST_P(CommunicatorTest, MeanAndMaxOverTheRanks) {
  const int size = GetParam();
  RunRanks(size, [&](Communicator& group) {
    at::Tensor mean = at::full({2}, static_cast<float>(group.rank()));
    ASSERT_THAT(group.AllReduce(mean, ReduceKind::kMean), IsOk());
    EXPECT_FLOAT_EQ(mean[1].item<float>(), static_cast<float>(size - 1) / 2.0F);
    at::Tensor max = at::full({1}, static_cast<float>(group.rank()));
    ASSERT_THAT(group.AllReduce(max, ReduceKind::kMax), IsOk());
    EXPECT_FLOAT_EQ(max[0].item<float>(), static_cast<float>(size - 1));
  });
}

TEST_P(CommunicatorTest, TextTravels) {
  const int size = GetParam();
  RunRanks(size, [&](Communicator& group) {
    EXPECT_EQ(*group.BroadcastFromMain(group.rank() == 0 ? "from main" : "other"), "from main");
    EXPECT_EQ(*group.BroadcastFromMain(""), "");
    const Result<std::vector<std::string>> all =
        group.AllGather(std::string(static_cast<size_t>(group.rank()), 'x'));
    ASSERT_THAT(all, IsOk());
    ASSERT_EQ(all->size(), static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ((*all)[static_cast<size_t>(rank)], std::string(static_cast<size_t>(rank), 'x'));
    }
  });
}

TEST_P(CommunicatorTest, TheLargestRequestIsAgreedOn) {
  const int size = GetParam();
  RunRanks(size, [&](Communicator& group) {
    PendingMax pending = group.StartMax(group.rank() == size - 1 ? 7 : 0);
    EXPECT_EQ(*pending.Wait(), 7);
  });
}

TEST_P(CommunicatorTest, OneRanksFailureIsEverybodys) {
  const int size = GetParam();
  RunRanks(size, [&](Communicator& group) {
    EXPECT_THAT(group.AgreeAll({}), IsOk());
    const Status mine =
        group.rank() == size - 1 ? ResourceExhausted("disk full: 0 of 8 bytes") : Status();
    EXPECT_THAT(group.AgreeAll(mine),
                StatusIs(StatusCode::kResourceExhausted, HasSubstr("disk full: 0 of 8 bytes")));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommunicatorTest, ::testing::Values(1, 2, 3, 4));

TEST(CommunicatorDeathOfAPeerTest, TheSurvivorLearnsItAndTheGroupStaysDead) {
  RunRankThreads(2, [](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    if (rank == 1) {
      Communicator(MakeGloo(store, 1, 2), 1, 2).Barrier().ok();
      return;  // leaves: its connections close
    }
    Communicator group(MakeGloo(store, 0, 2), 0, 2);
    ASSERT_THAT(group.Barrier(), IsOk());
    EXPECT_THAT(
        group.Barrier(),
        StatusIs(StatusCode::kUnavailable, AllOf(HasSubstr("rank 0 of 2"), HasSubstr("barrier"))));
    EXPECT_THAT(group.BroadcastFromMain("x"),
                StatusIs(StatusCode::kUnavailable, HasSubstr("barrier")));
  });
}

TEST(LocalAddressTest, LoopbackIsReachedFromLoopback) {
  EXPECT_EQ(LocalAddressTowards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(LocalAddressTowards("no.such.host.invalid"), "127.0.0.1");
}

}  // namespace
}  // namespace lr::worker
