/// The sharded and the replicated engine against PyTorch's own FSDP2 and DDP: losses, gradient
/// norms and weights over five AdamW steps, 1 to 4 ranks, HSDP 2 x 2.
#include <algorithm>
#include <fstream>
#include <mutex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/nn/functional/loss.h>

#include "tests/support/rank_threads.h"
#include "tests/support/shard_groups.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/parallel/fsdp_net.h"
#include "worker/optim/optimizer.h"
#include "worker/parallel/replicated_engine.h"
#include "worker/parallel/sharded_engine.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using nlohmann::json;
using testing::LoadNumbers;
using testing::MakeNet;
using testing::NetImpl;

constexpr int kSteps = 5;
constexpr int64_t kBatch = 12;

const json& Expected() {
  static const json expected = json::parse(std::ifstream(testing::NumbersFile("expected.json")));
  return expected;
}

std::optional<at::ScalarType> Dtype(const json& policy, const char* key) {
  if (!policy.contains(key)) {
    return std::nullopt;
  }
  return policy[key] == "torch.bfloat16" ? at::kBFloat16 : at::kFloat;
}

/// One case of the recording, run by one rank.
class CaseRun {
 public:
  CaseRun(const json& recorded, const c10::intrusive_ptr<c10d::Store>& store, int rank)
      : options_(recorded["case"]), rank_(rank), world_(options_["world"]) {
    net_ = MakeNet();
    if (options_.contains("order")) {
      net_->order = options_["order"].get<std::vector<size_t>>();
    }
    if (options_.contains("frozen")) {
      for (at::Tensor& parameter : net_->blocks[options_["frozen"].get<size_t>()]->parameters()) {
        parameter.set_requires_grad(false);
      }
    }
    MakeEngine(store);
    OptimizerGroup group;
    for (const ShardedParameter& one : parameters_) {
      if (one.shard.requires_grad()) {
        group.names.push_back(one.names.front());
        group.params.push_back(one.shard);
      }
    }
    auto optimizer =
        Optimizer::Create({.type = "adamw", .lr = 1e-2, .weight_decay = 0.01}, {group});
    EXPECT_THAT(optimizer, IsOk());
    optimizer_ = std::move(optimizer).value();
  }

  void Run() {
    const auto data = LoadNumbers("data.safetensors");
    const int64_t part = kBatch / world_;
    const int64_t passes = options_.value("accum", 1);
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor x = data.at("x")[step].narrow(0, rank_ * part, part);
      const at::Tensor y = data.at("y")[step].narrow(0, rank_ * part, part);
      json step_losses;
      for (int64_t pass = 0; pass < passes; ++pass) {
        step_losses.push_back(Pass(x.chunk(passes)[static_cast<size_t>(pass)],
                                   y.chunk(passes)[static_cast<size_t>(pass)],
                                   passes,
                                   pass == passes - 1));
      }
      losses.push_back(passes > 1 ? step_losses : step_losses[0]);
      norms.push_back(Norm().item<double>());
      optimizer_->Step();
      optimizer_->ZeroGrad();
    }
  }

  /// Collective: the whole weights by name.
  std::map<std::string, at::Tensor> Weights() {
    std::map<std::string, at::Tensor> weights;
    for (const ShardedParameter& one : parameters_) {
      weights[one.names.front()] =
          sharded_ != nullptr ? GatherParameter(sharded_->groups(), one) : one.shard.detach();
    }
    return weights;
  }

  std::vector<json> losses;
  std::vector<double> norms;

 private:
  void MakeEngine(const c10::intrusive_ptr<c10d::Store>& store) {
    const std::string kind = options_.value("kind", "single");
    if (kind == "fsdp") {
      const auto mesh = options_.value("mesh", std::vector<int>{1, world_});
      ShardedOptions options;
      options.wrap.class_names = {"Block"};
      options.reshard_after_forward = options_.value("reshard", true);
      const json policy = options_.value("policy", json::object());
      options.precision.param_dtype = Dtype(policy, "param_dtype");
      options.precision.reduce_dtype = Dtype(policy, "reduce_dtype");
      options.precision.output_dtype = Dtype(policy, "output_dtype");
      auto engine = ShardedEngine::Create(
          *net_, lr::testing::MakeShardGroups(store, rank_, mesh[0], mesh[1]), options);
      ASSERT_THAT(engine, IsOk());
      sharded_ = engine->get();
      engine_ = std::move(*engine);
      parameters_ = sharded_->parameters();
      return;
    }
    if (kind == "ddp") {
      auto engine = ReplicatedEngine::Create(
          *net_, lr::testing::MakeDataGroup(store, rank_, world_), ReplicatedOptions{});
      ASSERT_THAT(engine, IsOk());
      engine_ = std::move(*engine);
    } else {
      engine_ = std::make_unique<PlainEngine>();
    }
    for (const auto& item : net_->named_parameters()) {
      parameters_.push_back({{item.key()}, item.value(), item.value().sizes().vec(), false});
    }
  }

  double Pass(at::Tensor x, const at::Tensor& y, int64_t passes, bool sync) {
    engine_->BeginForward({&x}, sync);
    at::Tensor output = net_->forward(x);
    engine_->EndForward({&output}, sync);
    const at::Tensor loss = torch::nn::functional::mse_loss(output.to(at::kFloat), y);
    engine_->Backward(loss / static_cast<double>(passes), sync);
    return loss.item<double>();
  }

  at::Tensor Norm() {
    const auto& params = optimizer_->groups()[0].params;
    const double limit = options_.value("clip", 0.0);
    if (sharded_ == nullptr) {
      return ClipGradNorm(params, limit);
    }
    const NormOverRanks ranks = {
        [&](at::Tensor& squared) { SumOverShards(sharded_->groups(), "gradient norms", squared); },
        {}};
    return ClipGradNorm(params, limit, &ranks);
  }

  const json options_;
  const int rank_;
  const int world_;
  std::shared_ptr<NetImpl> net_;
  ShardedEngine* sharded_ = nullptr;
  std::unique_ptr<ParallelEngine> engine_;
  std::vector<ShardedParameter> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Rows 18…35 of a qkv.bias have a gradient of zero in theory; Adam turns its rounding noise into
/// steps.
at::Tensor WithoutKeyBias(const std::string& name, const at::Tensor& tensor) {
  return name.ends_with("qkv.bias") ? at::cat({tensor.slice(0, 0, 18), tensor.slice(0, 36)})
                                    : tensor;
}

class NumbersTest : public ::testing::TestWithParam<std::string> {};

TEST_P(NumbersTest, EqualTheRecordedRun) {
  const json& recorded = Expected()["cases"][GetParam()];
  const int world = recorded["case"]["world"];
  const bool is_half = recorded["case"].contains("policy");
  std::vector<std::vector<json>> losses(static_cast<size_t>(world));
  std::vector<double> norms;
  std::map<std::string, at::Tensor> weights;
  lr::testing::RunRankThreads(world, [&](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    at::set_num_threads(1);
    CaseRun run(recorded, store, rank);
    run.Run();
    losses[static_cast<size_t>(rank)] = run.losses;
    auto whole = run.Weights();
    if (rank == 0) {
      norms = run.norms;
      weights = std::move(whole);
    }
  });
  for (int rank = 0; rank < world; ++rank) {
    for (size_t step = 0; step < kSteps; ++step) {
      const json& wanted = recorded["loss_per_rank"][static_cast<size_t>(rank)][step];
      const json& found = losses[static_cast<size_t>(rank)][step];
      const double tolerance = is_half ? 1e-5 : 1e-6;
      for (size_t pass = 0; pass < (wanted.is_array() ? wanted.size() : 1); ++pass) {
        const double value = wanted.is_array() ? wanted[pass].get<double>() : wanted.get<double>();
        const double own = found.is_array() ? found[pass].get<double>() : found.get<double>();
        EXPECT_NEAR(own, value, tolerance * value) << "rank " << rank << " step " << step;
      }
    }
  }
  for (size_t step = 0; step < kSteps; ++step) {
    const double wanted = recorded["grad_norm"][step];
    EXPECT_NEAR(norms[step], wanted, (is_half ? 1e-4 : 1e-6) * wanted) << "step " << step;
  }
  double worst = 0.0;
  for (const auto& [name, wanted] : LoadNumbers("final/" + GetParam() + ".safetensors")) {
    const at::Tensor difference =
        (WithoutKeyBias(name, weights.at(name)) - WithoutKeyBias(name, wanted)).abs().max();
    worst = std::max(worst, difference.item<double>());
  }
  std::cout << GetParam() << ": largest weight difference " << worst << "\n";
  EXPECT_LE(worst, is_half ? 5e-5 : 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Recorded,
                         NumbersTest,
                         ::testing::Values("single",
                                           "ddp2",
                                           "ddp3",
                                           "ddp4",
                                           "fsdp1",
                                           "fsdp2",
                                           "fsdp3",
                                           "fsdp4",
                                           "hsdp2x2",
                                           "fsdp2_keep",
                                           "fsdp2_accum2",
                                           "single_accum2",
                                           "fsdp3_clip",
                                           "ddp3_clip",
                                           "hsdp2x2_clip",
                                           "fsdp2_frozen1",
                                           "ddp2_frozen1",
                                           "fsdp2_unused1",
                                           "ddp2_unused1",
                                           "fsdp2_twice1",
                                           "single_twice1",
                                           "fsdp2_bf16",
                                           "fsdp2_bf16_reduce32",
                                           "fsdp4_bf16_reduce32",
                                           "hsdp2x2_bf16_reduce32",
                                           "fsdp2_reduce_bf16_only"));

}  // namespace
}  // namespace lr::worker
