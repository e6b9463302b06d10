// The verbs of lr::Accelerator that nothing else shows: where gradients are between the passes of
// an update, and what the loss scaler changes (nothing, unless gradients overflow).
#include "worker/accelerator/accelerator.h"

#include <limits>

#include <ATen/ATen.h>

#include "common/contract/worker_environment.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/parallel/fsdp_net.h"
#include "worker/optim/grad_scaler.h"
#include "worker/optim/optimizer.h"
#include "worker/parallel/sharded_engine.h"

namespace lr {
namespace {

using ::lr::testing::IsOk;
using worker::testing::MakeNet;
using worker::testing::NetImpl;

/// One process with the sharded engine: the same code path as many, without peers.
worker::EngineOptions Sharded(int64_t accumulation) {
  worker::EngineOptions options;
  options.gradient_accumulation_steps = accumulation;
  options.topology = {.dp_replicate = 1, .dp_shard = 1, .uses_sharded_engine = true};
  options.fsdp.wrap.class_names = {"Block"};
  return options;
}

at::Tensor Input() {
  static const auto data = worker::testing::LoadNumbers("data.safetensors");
  return data.at("x")[0].narrow(0, 0, 3);
}

/// A net with its accelerator and an SGD optimizer of lr 0.1.
struct Loop {
  explicit Loop(const worker::EngineOptions& options) {
    accelerator = Accelerator::Create(options, WorkerEnvironment{}).value();
    const auto net = MakeNet();
    worker::OptimizerGroup all;
    for (const auto& item : net->named_parameters()) {
      if (item.value().requires_grad()) {
        all.names.push_back(item.key());
        all.params.push_back(item.value());
      }
    }
    worker::OptimizerConfig config;
    config.type = "sgd";
    config.lr = 0.1;
    model.emplace(accelerator->prepare(net));
    optimizer.emplace(accelerator->prepare(worker::Optimizer::Create(config, {all}).value()));
  }

  /// One micro-batch; `factor` scales the loss.
  void Pass(int64_t counter, double factor = 1.0, double max_norm = 1.0) {
    accelerator->accumulate(counter);
    at::Tensor output = (*model)(Input());
    accelerator->backward(output.square().mean() * factor);
    norm = accelerator->clip_grad_norm_(optimizer->unwrapped(), max_norm);
    optimizer->step();
    if (accelerator->sync_gradients()) {
      gradients_seen = Gradients();
    }
    optimizer->zero_grad();
  }

  int Gradients() const {
    int defined = 0;
    for (const worker::ShardedParameter& one : accelerator->sharded()->parameters()) {
      defined += one.shard.grad().defined() ? 1 : 0;
    }
    return defined;
  }

  std::vector<at::Tensor> Weights() const {
    std::vector<at::Tensor> weights;
    for (const worker::ShardedParameter& one : accelerator->sharded()->parameters()) {
      weights.push_back(one.shard.detach().clone());
    }
    return weights;
  }

  std::unique_ptr<Accelerator> accelerator;
  std::optional<PreparedModel<NetImpl>> model;
  std::optional<AcceleratedOptimizer> optimizer;
  at::Tensor norm;
  int gradients_seen = 0;
};

void ExpectSame(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::allclose(a[i], b[i], 1e-6, 1e-7)) << i;
  }
}

TEST(AcceleratorTest, BetweenUpdatesGradientsLieInTheShardsOnlyWhenAskedTo) {
  Loop whole(Sharded(2));
  worker::EngineOptions options = Sharded(2);
  options.reduces_every_pass = true;
  Loop shards(options);
  whole.Pass(1);
  shards.Pass(1);
  EXPECT_EQ(whole.Gradients(), 0);
  EXPECT_GT(shards.Gradients(), 0);
  whole.Pass(2);
  shards.Pass(2);
  EXPECT_EQ(shards.gradients_seen, whole.gradients_seen);
  ExpectSame(shards.Weights(), whole.Weights());
  EXPECT_EQ(shards.Gradients(), 0);  // cleared behind the update
}

TEST(AcceleratorTest, ALossScaleChangesNeitherNormNorUpdate) {
  for (const double max_norm : {0.5, 0.0}) {  // unscaled by clipping, or by the step
    Loop plain(Sharded(2));
    worker::EngineOptions options = Sharded(2);
    options.grad_scaler = worker::GradScalerState{.scale = 1024.0, .growth_interval = 2};
    Loop scaled(options);
    for (int64_t counter = 1; counter <= 4; ++counter) {
      plain.Pass(counter, 1.0, max_norm);
      scaled.Pass(counter, 1.0, max_norm);
      EXPECT_FALSE(scaled.optimizer->step_was_skipped());
      ASSERT_EQ(scaled.norm.defined(), plain.norm.defined());
      if (plain.norm.defined()) {
        EXPECT_TRUE(at::allclose(scaled.norm, plain.norm, 1e-5));
      }
    }
    ExpectSame(scaled.Weights(), plain.Weights());
    EXPECT_EQ(scaled.accelerator->scaler()->scale(), 2048.0);  // two updates, not four passes
  }
}

TEST(AcceleratorTest, AnOverflowInOnePassSkipsTheWholeUpdate) {
  worker::EngineOptions options = Sharded(2);
  options.grad_scaler = worker::GradScalerState{.scale = 1024.0};
  Loop loop(options);
  const std::vector<at::Tensor> before = loop.Weights();
  loop.Pass(1, std::numeric_limits<double>::infinity());
  loop.Pass(2);
  EXPECT_TRUE(loop.optimizer->step_was_skipped());
  ExpectSame(loop.Weights(), before);
  EXPECT_EQ(loop.accelerator->scaler()->scale(), 512.0);
  loop.Pass(3);
  loop.Pass(4);
  EXPECT_FALSE(loop.optimizer->step_was_skipped());
  EXPECT_FALSE(at::equal(loop.Weights()[0], before[0]));
}

}  // namespace
}  // namespace lr
