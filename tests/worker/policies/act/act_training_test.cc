// Losses, gradients and five optimizer steps of ACT against LeRobot's on the same batch, weights
// and random stream (policies.md A.7, F). Figures in comments: the largest error seen.
#include <ATen/autocast_mode.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/policies/act/act_fixture.h"
#include "worker/optim/optimizer.h"
#include "worker/policies/policy_factory.h"

namespace lr::worker {
namespace {

using testing::DefaultAct;
using testing::ExpectChecksum;
using testing::FirstBatch;
using testing::MakeAct;
using testing::ReadActJson;
using testing::SmallAct;

/// Automatic bfloat16 on the CPU, as `torch.autocast("cpu", torch.bfloat16)`.
class Bf16Autocast {
 public:
  explicit Bf16Autocast(bool enabled) : enabled_(enabled) {
    if (enabled_) {
      at::autocast::set_autocast_enabled(at::kCPU, true);
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    }
  }

  Bf16Autocast(const Bf16Autocast&) = delete;
  Bf16Autocast& operator=(const Bf16Autocast&) = delete;

  ~Bf16Autocast() {
    if (enabled_) {
      at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
    }
  }

 private:
  const bool enabled_;
};

PolicyOutput Forward(ACTPolicy& policy, const Batch& batch, int64_t seed, bool autocast = false) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  const Bf16Autocast scope(autocast);
  return policy.forward(batch);
}

void ExpectRelative(double actual, double expected, double tolerance, const std::string& what) {
  EXPECT_NEAR(actual, expected, std::abs(expected) * tolerance) << what;
}

/// Loss and scalars, in the order in which they are logged.
void ExpectOutput(const PolicyOutput& output,
                  const Json& expected,
                  double tolerance,
                  const std::string& what) {
  ExpectRelative(output.loss.item<double>(), expected.at("loss"), tolerance, what + " loss");
  std::vector<std::string> names = {"l1_loss"};
  if (expected.contains("kld_loss")) {
    names.emplace_back("kld_loss");
  }
  ASSERT_EQ(output.metrics.size(), names.size()) << what;
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(output.metrics[i].first, names[i]);
    EXPECT_FALSE(output.metrics[i].second.requires_grad());
    ExpectRelative(output.metrics[i].second.item<double>(),
                   expected.at(names[i]),
                   tolerance,
                   what + " " + names[i]);
  }
}

/// Each tensor's norm, give or take a rounding of the largest.
///
/// In the first stages of the trunk one activation lies so close to zero that rounding decides
/// whether ReLU passes it: PyTorch's own result moves by 1.2e-3 between instruction sets there.
/// With the recorder's order of operations and AVX2 throughout, every norm agrees to 5e-7.
void ExpectGradients(const ACTPolicy& policy, const Json& expected, double tolerance) {
  const double total = expected.at("grad_norm_total");
  for (const auto& item : policy.named_parameters()) {
    const double norm = expected.at("grad_norms").at(item.key());
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    const double actual = item.value().grad().to(at::kDouble).norm().item<double>();
    const double factor = item.key().starts_with("model.backbone.layer") ? 1.5 : 1.0;
    EXPECT_NEAR(actual, norm, norm * tolerance * factor + total * 1e-8) << item.key();
  }
}

/// In theory the keys' biases have no gradient at all: softmax is blind to what they add. Adam
/// turns the rounding noise that they have into full steps, so this is how far they may stray.
double KeyBiasSlack(const std::string& name, const at::Tensor& tensor, const ActConfig& config) {
  constexpr double kSteps = 5;
  const bool has_key_bias = name.ends_with("in_proj_bias");
  return has_key_bias ? 2 * kSteps * config.optimizer_lr * static_cast<double>(tensor.numel()) / 3
                      : 0.0;
}

struct Case {
  std::string name;
  double loss_tolerance;
  double total_tolerance;
  double step_tolerance;
};

class ActTrainingTest : public ::testing::TestWithParam<Case> {};

TEST_P(ActTrainingTest, EqualsTheReference) {
  const auto& [name, loss_tolerance, total_tolerance, step_tolerance] = GetParam();
  const Json expected = ReadActJson("training_expected.json").at("cases").at(name);
  const bool autocast = expected.at("autocast_bf16");
  ActConfig config = SmallAct({{"dropout", expected.at("dropout")}});
  config.optimizer_lr = expected.at("optimizer").at("lr")[0];
  config.optimizer_lr_backbone = expected.at("optimizer").at("lr")[1];
  const auto policy = MakeAct(config);
  const Batch batch = FirstBatch();

  const PolicyOutput first = Forward(*policy, batch, 1234, autocast);
  ExpectOutput(first, expected, loss_tolerance, name);
  EXPECT_EQ(first.loss.scalar_type(), at::kFloat);
  first.loss.backward();
  ExpectRelative(ClipGradNorm(policy->parameters(), 0.0).item<double>(),
                 expected.at("grad_norm_total"),
                 total_tolerance,
                 "total gradient norm");
  if (!autocast) {  // half precision leaves no digit of the smallest norms
    ExpectGradients(*policy, expected, 1e-3);
  }

  const auto optimizer =
      std::move(Optimizer::Create(config.OptimizerPreset(), MakeOptimizerGroups(*policy))).value();
  optimizer->ZeroGrad();
  for (const Json& step : expected.at("steps")) {
    const PolicyOutput output = Forward(*policy, batch, step.at("seed"));
    ExpectOutput(output, step, step_tolerance, name + " step");
    output.loss.backward();
    const double norm = ClipGradNorm(policy->parameters(), 10.0).item<double>();
    ExpectRelative(norm, step.at("grad_norm"), step_tolerance, name + " gradient norm");
    optimizer->Step();
    optimizer->ZeroGrad();
  }
  if (expected.contains("state_dict_after")) {
    for (const auto& [key, tensor] : StateDict(*policy)) {
      if (expected.at("state_dict_after").contains(key)) {
        ExpectChecksum(tensor,
                       expected.at("state_dict_after").at(key),
                       2e-3,
                       key,
                       KeyBiasSlack(key, tensor, config));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ActTrainingTest,
                         ::testing::Values(Case{"dropout0", 1e-6, 1e-5, 1e-5},
                                           Case{"dropout0_lr1e-3", 1e-6, 1e-5, 2e-3},
                                           Case{"dropout0.1", 1e-6, 1e-5, 1e-5},
                                           Case{"dropout0_bf16_autocast", 1e-2, 1e-2, 0.0}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase_if(name, [](char c) { return c == '.' || c == '-'; });
                           return name;
                         });

TEST(ActLossTest, EvaluationMeasuresTheL1ErrorAtAZeroLatent) {
  const Json expected = ReadActJson("training_expected.json").at("cases").at("eval_mode");
  const auto policy = MakeAct(SmallAct());
  policy->eval();
  ExpectOutput(Forward(*policy, FirstBatch(), 1234), expected, 1e-6, "evaluation");
}

class ActVariantTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ActVariantTest, EqualsTheReference) {
  const Json expected = ReadActJson("training_expected.json").at("variants").at(GetParam());
  ActConfig config = SmallAct(expected.at("config_overrides"));
  config.dropout = 0.0;
  const auto policy = MakeAct(config);

  int64_t n_parameters = 0;
  for (const at::Tensor& parameter : policy->parameters()) {
    n_parameters += parameter.numel();
  }
  EXPECT_EQ(n_parameters, expected.at("num_params").get<int64_t>());
  const NamedTensors state = StateDict(*policy);
  EXPECT_EQ(state.size(), expected.at("state_dict_entries").get<size_t>());
  double abs_sum = 0.0;
  for (const auto& [name, tensor] : state) {
    abs_sum += testing::AbsSum(tensor);
  }
  ExpectRelative(abs_sum, expected.at("init_abs_sum_total"), 1e-9, "initial state");

  const PolicyOutput output = Forward(*policy, FirstBatch(), 1234);
  ExpectOutput(output, expected, 1e-4, GetParam());
  output.loss.backward();
  ExpectRelative(ClipGradNorm(policy->parameters(), 0.0).item<double>(),
                 expected.at("grad_norm_total"),
                 1e-3,
                 "gradient norm");
  for (const auto& item : policy->named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    ActVariantTest,
    ::testing::Values("no_vae", "pre_norm", "gelu", "decoder2", "resnet34", "kl1_chunk8_latent4"),
    [](const auto& info) { return info.param; });

/// v_k = (k mod 97) / 97 in storage order.
at::Tensor Ramp(at::IntArrayRef shape) {
  const int64_t count = c10::multiply_integers(shape);
  return (at::arange(count, at::kLong).remainder(97).to(at::kDouble) / 97.0)
      .to(at::kFloat)
      .view(shape);
}

/// Section F: the deterministic batch for the default model.
Batch RampBatch() {
  Batch batch;
  batch.tensors["observation.images.top"] = Ramp({2, 3, 96, 128}) * 2 - 1;
  batch.tensors["observation.state"] = Ramp({2, 14}) - 0.5;
  batch.tensors["action"] = Ramp({2, 100, 14}) - 0.5;
  at::Tensor padding = at::zeros({2, 100}, at::kBool);
  padding[0].slice(0, 60).fill_(true);
  batch.tensors["action_is_pad"] = padding;
  return batch;
}

TEST(ActLossTest, DefaultModelEqualsTheSpecificationsVectors) {
  ActConfig config = DefaultAct(14, 14, {3, 480, 640});
  config.dropout = 0.0;
  const auto policy = MakeAct(config);
  const Batch batch = RampBatch();
  const PolicyOutput output = Forward(*policy, batch, 7);
  ExpectOutput(output,
               {{"loss", 69.80148}, {"l1_loss", 0.4749885}, {"kld_loss", 6.9326496}},
               1e-6,
               "training");
  output.loss.backward();
  ExpectRelative(
      ClipGradNorm(policy->parameters(), 0.0).item<double>(), 1395.702, 1e-4, "gradient norm");
  for (const char* name :
       {"self_attn.in_proj_weight", "self_attn.out_proj.weight", "norm1.weight"}) {
    const at::Tensor gradient =
        policy->named_parameters()[std::string("model.decoder.layers.0.") + name].grad();
    EXPECT_EQ(gradient.abs().max().item<float>(), 0.0F) << name;
  }

  policy->eval();
  ExpectOutput(policy->forward(batch), {{"loss", 0.4834528}, {"l1_loss", 0.4834528}}, 1e-6, "eval");
  const at::Tensor chunk = policy->PredictActionChunk(batch);
  const float first[] = {0.03317843F, -0.90765297F, 1.03695059F, 0.58879226F};
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(chunk[0][0][i].item<float>(), first[i], 1e-5);
  }
  EXPECT_NEAR(testing::Sum(chunk), 530.19646, 2e-3);
}

TEST(ActLossTest, DividesByTheValidElements) {
  const auto policy = MakeAct(SmallAct({{"use_vae", false}, {"dropout", 0.0}}));
  policy->eval();
  Batch batch = FirstBatch();
  const at::Tensor error =
      (policy->PredictActionChunk(batch) - batch.tensors["action"]).abs().detach();
  for (const int64_t first_padded : {8, 3, 0}) {  // 0 %, more than 60 %, 100 % padding
    at::Tensor padding = at::zeros({4, 8}, at::kBool);
    padding.slice(1, first_padded).fill_(true);
    batch.tensors["action_is_pad"] = padding;
    const double expected =
        first_padded == 0 ? 0.0 : error.slice(1, 0, first_padded).mean().item<double>();
    EXPECT_NEAR(policy->forward(batch).loss.item<double>(), expected, 1e-6) << first_padded;
  }
}

TEST(ActLossTest, ABatchWithoutActionsThrows) {
  const auto policy = MakeAct(SmallAct());
  Batch batch = FirstBatch();
  batch.tensors.erase("action");
  EXPECT_ANY_THROW(policy->forward(batch));
}

}  // namespace
}  // namespace lr::worker
