// Loss scaling against torch's GradScaler (checkpoints/rng/expected.json), its extremes, and skips
// that all ranks make together.
#include "worker/optim/grad_scaler.h"

#include <cmath>
#include <fstream>
#include <limits>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/support/rank_threads.h"
#include "tests/support/status_matchers.h"
#include "worker/comm/shard_groups.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr double kInf = std::numeric_limits<double>::infinity();

void OneProcess(at::Tensor& /*value*/) {}

/// One parameter [4] of ones with a gradient of `value`s, under SGD with lr 1.
struct Trained {
  explicit Trained(int64_t numel = 4) : weight(at::ones({numel}).requires_grad_()) {
    OptimizerConfig config;
    config.type = "sgd";
    config.lr = 1.0;
    config.weight_decay = 0.0;
    OptimizerGroup group;
    group.names = {"weight"};
    group.params = {weight};
    optimizer = Optimizer::Create(config, {group}).value();
  }

  /// A pass whose unscaled gradient is `value` everywhere.
  bool Update(GradScaler& scaler, double value, const SumOverRanks& sum = OneProcess) {
    scaler.Scale(at::zeros({}));
    weight.mutable_grad() = at::full_like(weight.detach(), value * scaler.state().scale);
    const bool stepped = scaler.Step(*optimizer, sum);
    scaler.Update();
    return stepped;
  }

  at::Tensor weight;
  std::unique_ptr<Optimizer> optimizer;
};

GradScalerState StateOf(const Json& json) {
  return {json.at("scale"),
          json.at("growth_factor"),
          json.at("backoff_factor"),
          json.at("growth_interval"),
          json.at("_growth_tracker")};
}

TEST(GradScalerTest, ScaleAndTrackerFollowTorchStepByStep) {
  const Json recorded =
      Json::parse(std::ifstream(std::string(LR_TEST_DATA) + "/checkpoints/rng/expected.json"))
          .at("grad_scaler");
  EXPECT_GE(recorded.size(), 4U);
  for (const auto& [name, run] : recorded.items()) {
    SCOPED_TRACE(name);
    GradScaler scaler(StateOf(run.at("initial_state")), at::kCPU);
    Trained trained;
    for (const Json& step : run.at("steps")) {
      // Zero, so that scales that are subnormal or huge change nothing but themselves.
      trained.Update(scaler, step.at("found_inf").get<double>() != 0 ? kInf : 0.0);
      EXPECT_EQ(scaler.state().scale, step.at("scale").get<double>());
      EXPECT_EQ(scaler.state().growth_tracker, step.at("growth_tracker").get<int64_t>());
    }
    EXPECT_EQ(scaler.state(), StateOf(run.at("final_state")));
  }
}

TEST(GradScalerTest, AnUpdateIsThatOfTheUnscaledGradient) {
  GradScaler scaler({.scale = 1024.0}, at::kCPU);
  Trained trained;
  EXPECT_TRUE(trained.Update(scaler, 0.25));
  EXPECT_TRUE(at::equal(trained.weight.detach(), at::full({4}, 0.75)));
}

TEST(GradScalerTest, TheProductIsFloat32EvenForAHalfLoss) {
  const GradScaler scaler({}, at::kCPU);
  const at::Tensor scaled = scaler.Scale(at::full({}, 8.0, at::kHalf));
  EXPECT_EQ(scaled.scalar_type(), at::kFloat);
  EXPECT_EQ(scaled.item<float>(), 8.0F * 65536.0F);
}

TEST(GradScalerTest, AnOverflowChangesNothingButTheScale) {
  for (const double bad : {kInf, -kInf, std::nan("")}) {
    GradScaler scaler({}, at::kCPU);
    Trained trained;
    EXPECT_FALSE(trained.Update(scaler, bad));
    EXPECT_TRUE(at::equal(trained.weight.detach(), at::ones({4})));
    EXPECT_TRUE(trained.optimizer->state().empty());
    EXPECT_EQ(scaler.state().scale, 32768.0);
    EXPECT_EQ(scaler.skipped_updates(), 1);
    EXPECT_TRUE(trained.Update(scaler, 0.5));
    EXPECT_EQ(scaler.skips_in_a_row(), 0);
  }
}

TEST(GradScalerTest, TheScaleStaysFiniteAndItsFallIsAnError) {
  GradScaler scaler({.scale = 1024.0, .growth_interval = 1}, at::kCPU);
  Trained trained;
  for (int i = 0; i < 200; ++i) {
    trained.Update(scaler, 0.0);
  }
  EXPECT_EQ(scaler.state().scale, std::ldexp(1.0, 127));
  EXPECT_THAT(scaler.Health(), IsOk());
  for (int i = 0; i < 300; ++i) {
    trained.Update(scaler, kInf);
  }
  EXPECT_EQ(scaler.skips_in_a_row(), 300);
  EXPECT_THAT(scaler.Health(),
              StatusIs(StatusCode::kFailedPrecondition,
                       ::testing::AllOf(HasSubstr("300 times"), HasSubstr("diverges"))));
}

TEST(GradScalerTest, ARestoredOneGoesOnLikeTheOldOne) {
  GradScaler scaler({.scale = 8192.0, .growth_interval = 20, .growth_tracker = 17}, at::kCPU);
  GradScaler resumed({}, at::kCPU);
  resumed.Restore(scaler.state());
  Trained a;
  Trained b;
  for (const double gradient : {0.0, 0.0, 0.0, kInf, 0.0}) {
    a.Update(scaler, gradient);
    b.Update(resumed, gradient);
    EXPECT_EQ(scaler.state(), resumed.state());
  }
  EXPECT_EQ(scaler.state().scale, 8192.0);
}

TEST(GradScalerTest, MisuseIsAClearError) {
  GradScaler scaler({}, at::kCPU);
  Trained trained;
  EXPECT_THROW(scaler.Unscale(*trained.optimizer), c10::Error);  // clipping before any scaled loss
  scaler.Scale(at::zeros({}));
  scaler.Unscale(*trained.optimizer);
  EXPECT_THROW(scaler.Unscale(*trained.optimizer), c10::Error);
  scaler.Step(*trained.optimizer, OneProcess);
  EXPECT_THROW(scaler.Step(*trained.optimizer, OneProcess), c10::Error);
  scaler.Update();
  EXPECT_THROW(scaler.Update(), c10::Error);
}

TEST(GradScalerTest, HalfGradientsAreRefusedByName) {
  GradScaler scaler({}, at::kCPU);
  Trained trained;
  trained.weight.set_data(trained.weight.to(at::kHalf));
  trained.weight.mutable_grad() = at::ones({4}, at::kHalf);
  scaler.Scale(at::zeros({}));
  try {
    scaler.Unscale(*trained.optimizer);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("'weight' is float16"));
  }
}

/// FR-27: also when the neighbour's shard is empty.
TEST(GradScalerTest, AnOverflowOnOneRankIsSkippedByAll) {
  constexpr int kRanks = 4;
  for (const double bad : {kInf, std::nan("")}) {
    lr::testing::RunRankThreads(
        kRanks, [&](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
          ShardGroups groups;
          groups.shard_size = kRanks;
          groups.shard_rank = rank;
          groups.world = lr::testing::MakeDataGroup(store, rank, kRanks);
          GradScaler scaler({}, at::kCPU);
          Trained trained(rank == 2 ? 0 : 4);
          const SumOverRanks sum = [&](at::Tensor& value) {
            SumOverWorld(groups, "overflows", value);
          };
          EXPECT_FALSE(trained.Update(scaler, rank == 3 ? bad : 0.5, sum));
          EXPECT_TRUE(at::equal(trained.weight.detach(), at::ones_like(trained.weight)));
          EXPECT_EQ(scaler.state().scale, 32768.0);
          EXPECT_EQ(scaler.state().growth_tracker, 0);
          EXPECT_TRUE(trained.Update(scaler, 0.5, sum));
          EXPECT_EQ(scaler.state().growth_tracker, 1);
        });
  }
}

}  // namespace
}  // namespace lr::worker
