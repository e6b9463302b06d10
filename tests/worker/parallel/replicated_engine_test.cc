#include "worker/parallel/replicated_engine.h"

#include <mutex>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "tests/support/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::MakeDataGroup;
using ::lr::testing::RunRankThreads;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

/// A used layer chain and a layer that only `uses_extra` passes go through.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    a = register_module("a", torch::nn::Linear(6, 8));
    b = register_module("b", torch::nn::Linear(8, 3));
    extra = register_module("extra", torch::nn::Linear(8, 8));
    counter = register_buffer("counter", torch::zeros({1}));
  }

  at::Tensor forward(const at::Tensor& x, bool uses_extra) {
    at::Tensor hidden = torch::relu(a(x));
    if (uses_extra) {
      hidden = hidden + extra(hidden);
    }
    return b(hidden);
  }

  torch::nn::Linear a{nullptr}, b{nullptr}, extra{nullptr};
  at::Tensor counter;
};

at::Tensor Input(int step, int rank) {
  at::manual_seed(static_cast<uint64_t>(1000 + 10 * step + rank));
  return torch::randn({4, 6});
}

std::shared_ptr<NetImpl> MakeNet(uint64_t seed) {
  at::manual_seed(seed);
  return std::make_shared<NetImpl>();
}

/// The global generator is shared by the rank threads: draws are serialised.
std::mutex generator_mutex;

class ReplicatedEngineTest : public ::testing::TestWithParam<int> {};

TEST_P(ReplicatedEngineTest, GradientsAreTheMeanOverTheRanksFromEqualStarts) {
  const int size = GetParam();
  std::shared_ptr<NetImpl> reference;
  std::vector<std::vector<at::Tensor>> inputs(3);
  {
    const std::lock_guard lock(generator_mutex);
    reference = MakeNet(0);
    for (int step = 0; step < 3; ++step) {
      for (int rank = 0; rank < size; ++rank) {
        inputs[static_cast<size_t>(step)].push_back(Input(step, rank));
      }
    }
  }
  std::vector<std::vector<at::Tensor>> expected;  // per step, per parameter
  for (int step = 0; step < 3; ++step) {
    reference->zero_grad();
    at::Tensor loss;
    for (int rank = 0; rank < size; ++rank) {
      const at::Tensor one =
          reference
              ->forward(inputs[static_cast<size_t>(step)][static_cast<size_t>(rank)], rank == 0)
              .pow(2)
              .mean();
      loss = loss.defined() ? loss + one : one;
    }
    (loss / size).backward();
    expected.emplace_back();
    for (const at::Tensor& p : reference->parameters()) {
      expected.back().push_back(p.grad().clone());
    }
  }
  RunRankThreads(size, [&](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    std::shared_ptr<NetImpl> net;
    {
      const std::lock_guard lock(generator_mutex);
      net = MakeNet(
          static_cast<uint64_t>(rank));  // other ranks start with other weights: rank 0's must win
    }
    auto engine = ReplicatedEngine::Create(*net, MakeDataGroup(store, rank, size), {});
    ASSERT_THAT(engine, IsOk());
    for (size_t step = 0; step < 3; ++step) {
      (*engine)->BeginForward({}, true);
      at::Tensor out = net->forward(inputs[step][static_cast<size_t>(rank)], rank == 0);
      (*engine)->EndForward({&out}, true);
      (*engine)->Backward(out.pow(2).mean(), true);
      size_t index = 0;
      for (const at::Tensor& p : net->parameters()) {
        EXPECT_LE((p.grad() - expected[step][index++]).abs().max().item<double>(), 1e-6)
            << "step " << step << " rank " << rank;
      }
      net->zero_grad();
    }
  });
}

TEST_P(ReplicatedEngineTest, AParameterNobodyUsedKeepsAnUndefinedGradient) {
  const int size = GetParam();
  RunRankThreads(size, [&](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    std::shared_ptr<NetImpl> net;
    at::Tensor x;
    {
      const std::lock_guard lock(generator_mutex);
      net = MakeNet(0);
      x = Input(0, rank);
    }
    auto engine = ReplicatedEngine::Create(*net, MakeDataGroup(store, rank, size), {});
    ASSERT_THAT(engine, IsOk());
    (*engine)->BeginForward({}, true);
    at::Tensor out = net->forward(x, false);
    (*engine)->EndForward({&out}, true);
    (*engine)->Backward(out.mean(), true);
    EXPECT_FALSE(net->extra->weight.grad().defined());
    EXPECT_TRUE(net->a->weight.grad().defined());
  });
}

TEST_P(ReplicatedEngineTest, AnAccumulationWindowExchangesOnceWithTheSameResult) {
  const int size = GetParam();
  RunRankThreads(size, [&](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    std::shared_ptr<NetImpl> net;
    std::vector<at::Tensor> mine;
    at::Tensor want;
    {
      const std::lock_guard lock(generator_mutex);
      net = MakeNet(0);
      auto reference = MakeNet(0);
      for (int step = 0; step < 2; ++step) {
        mine.push_back(Input(step, rank));
        for (int other = 0; other < size; ++other) {
          (reference->forward(Input(step, other), true).pow(2).mean() / (2.0 * size)).backward();
        }
      }
      want = reference->a->weight.grad().clone();
    }
    auto engine = ReplicatedEngine::Create(*net, MakeDataGroup(store, rank, size), {});
    ASSERT_THAT(engine, IsOk());
    for (size_t pass = 0; pass < 2; ++pass) {
      const bool sync = pass == 1;
      (*engine)->BeginForward({}, sync);
      at::Tensor out = net->forward(mine[pass], true);
      (*engine)->EndForward({&out}, sync);
      (*engine)->Backward(out.pow(2).mean() / 2, sync);
    }
    EXPECT_LE((net->a->weight.grad() - want).abs().max().item<double>(), 1e-6);
  });
}

TEST_P(ReplicatedEngineTest, BuffersFollowRankZeroBeforeEachForward) {
  const int size = GetParam();
  RunRankThreads(size, [&](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    std::shared_ptr<NetImpl> net;
    {
      const std::lock_guard lock(generator_mutex);
      net = MakeNet(0);
    }
    auto engine = ReplicatedEngine::Create(*net, MakeDataGroup(store, rank, size), {});
    ASSERT_THAT(engine, IsOk());
    net->counter.fill_(static_cast<double>(rank + 5));
    (*engine)->BeginForward({}, true);
    EXPECT_FLOAT_EQ(net->counter.item<float>(), 5.0F);
    (*engine)->EndForward({}, false);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ReplicatedEngineTest, ::testing::Values(2, 3, 4));

TEST(ReplicatedEngineRefusalTest, AModuleWithoutTrainableParametersIsRefused) {
  RunRankThreads(2, [](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    torch::nn::Linear layer(2, 2);
    for (at::Tensor& p : layer->parameters()) {
      p.set_requires_grad(false);
    }
    EXPECT_THAT(ReplicatedEngine::Create(*layer, MakeDataGroup(store, rank, 2), {}),
                StatusIs(StatusCode::kFailedPrecondition,
                         HasSubstr("no parameter that requires a gradient")));
  });
}

}  // namespace
}  // namespace lr::worker
