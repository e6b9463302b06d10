// ACT's predictions, its queue of actions and its temporal ensemble against LeRobot's (policies.md
// A.8), and what it refuses.
#include "tests/support/status_matchers.h"
#include "tests/worker/policies/act/act_fixture.h"
#include "worker/policies/act/temporal_ensembler.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using testing::DefaultAct;
using testing::FirstBatch;
using ::testing::HasSubstr;
using testing::MakeAct;
using testing::OpenActTensors;
using testing::SmallAct;

void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  EXPECT_LE((actual - expected).abs().max().item<double>(), 2e-6) << what;
}

class ActInferenceTest : public ::testing::Test {
 protected:
  at::Tensor Expected(const std::string& name) const {
    return std::move(expected_.Load(name)).value();
  }

 private:
  const SafetensorsFile expected_ = OpenActTensors("inference_expected.safetensors");
};

TEST_F(ActInferenceTest, PredictsTheReferencesChunk) {
  const auto policy = MakeAct(SmallAct());
  const at::Tensor chunk = policy->PredictActionChunk(FirstBatch());
  ExpectClose(chunk, Expected("chunk_first_batch"), "chunk");
  EXPECT_FALSE(policy->is_training());
  EXPECT_FALSE(chunk.requires_grad());
}

TEST_F(ActInferenceTest, ServesActionsInOrderAndForgetsThemOnReset) {
  const auto policy = MakeAct(SmallAct({{"n_action_steps", 3}}));
  Batch batch = FirstBatch();
  for (int step = 0; step < 3; ++step) {
    ExpectClose(
        policy->SelectAction(batch), Expected(fmt::format("select_action/{}", step)), "step");
  }
  // The queue is empty: the fourth action is the first of a new prediction.
  ExpectClose(policy->SelectAction(batch), Expected("select_action/0"), "new chunk");
  const at::Tensor moved = batch.tensors["observation.state"] + 1.0;
  batch.tensors["observation.state"] = moved;
  ExpectClose(policy->SelectAction(batch), Expected("select_action/1"), "still queued");
  policy->Reset();
  EXPECT_FALSE(at::allclose(policy->SelectAction(batch), Expected("select_action/0")));
}

TEST_F(ActInferenceTest, EnsemblesLikeTheReference) {
  for (const auto& [name, coefficient] : {std::pair{"0.01", 0.01}, {"0.5", 0.5}, {"-0.1", -0.1}}) {
    TemporalEnsembler ensembler(coefficient, 8);
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (int i = 0; i < 3; ++i) {
        const at::Tensor chunk = Expected(fmt::format("obs/{}/chunk", 10 + i));
        ExpectClose(ensembler.Update(chunk),
                    Expected(fmt::format("ensemble/coeff{}/{}", name, i)),
                    fmt::format("coefficient {} step {}", name, i));
      }
      ensembler.Reset();
    }
  }
}

TEST_F(ActInferenceTest, EnsembleEqualsTheWeightedMeanOverALongEpisode) {
  constexpr int64_t kChunk = 20;
  constexpr double kCoefficient = 0.05;
  torch::manual_seed(3);
  TemporalEnsembler ensembler(kCoefficient, kChunk);
  std::vector<at::Tensor> chunks;
  for (int64_t now = 0; now < 150; ++now) {
    chunks.push_back(at::randn({2, kChunk, 3}));
    const int64_t oldest = std::max<int64_t>(0, now - kChunk + 1);
    at::Tensor sum = at::zeros({2, 3}, at::kDouble);
    double weights = 0.0;
    for (int64_t made = oldest; made <= now; ++made) {
      const double weight = std::exp(-kCoefficient * static_cast<double>(made - oldest));
      sum += weight * chunks[static_cast<size_t>(made)].select(1, now - made).to(at::kDouble);
      weights += weight;
    }
    ExpectClose(ensembler.Update(chunks.back()).to(at::kDouble), sum / weights, "step");
  }
}

TEST_F(ActInferenceTest, PolicyWithEnsemblePredictsAtEveryStep) {
  ActConfig config = SmallAct({{"n_action_steps", 1}, {"temporal_ensemble_coeff", 0.5}});
  const auto policy = MakeAct(config);
  Batch batch = FirstBatch();
  ExpectClose(policy->SelectAction(batch), Expected("select_action/0"), "first");
  // Both predictions agree, so their mean is the second action of the chunk weighted with the
  // first.
  const at::Tensor chunk = Expected("chunk_first_batch");
  const double newer = std::exp(-0.5);
  const at::Tensor mean = (chunk.select(1, 1) + chunk.select(1, 0) * newer) / (1 + newer);
  ExpectClose(policy->SelectAction(batch), mean, "second");
  policy->Reset();
  ExpectClose(policy->SelectAction(batch), Expected("select_action/0"), "after the reset");
}

TEST_F(ActInferenceTest, CamerasMayDifferInSize) {
  ActConfig config = SmallAct({{"use_vae", false}, {"dropout", 0.0}});
  for (auto& [key, feature] : config.input_features) {
    if (key == "observation.images.wrist") {
      feature.shape = {3, 64, 96};
    }
  }
  const auto policy = MakeAct(config);
  Batch batch = FirstBatch();
  const at::Tensor before = policy->PredictActionChunk(batch);
  at::Tensor& wrist = batch.tensors["observation.images.wrist"];
  wrist = wrist.slice(2, 0, 64).slice(3, 0, 96);
  const at::Tensor after = policy->PredictActionChunk(batch);
  EXPECT_EQ(before.sizes(), after.sizes());
  EXPECT_GT((before - after).abs().max().item<double>(), 1e-4);
}

TEST_F(ActInferenceTest, WorksFromAnEnvironmentStateAlone) {
  ActConfig config = SmallAct();
  config.input_features = {{"observation.environment_state", {FeatureType::kEnv, {5}}}};
  const auto policy = MakeAct(config);
  EXPECT_EQ(policy->backbone(), nullptr);
  EXPECT_EQ(policy->named_buffers()["model.vae_encoder_pos_enc"].size(1), 9);
  Batch batch;
  batch.tensors["observation.environment_state"] = at::rand({2, 5});
  batch.tensors["action"] = at::rand({2, 8, 6});
  batch.tensors["action_is_pad"] = at::zeros({2, 8}, at::kBool);
  EXPECT_TRUE(policy->forward(batch).loss.isfinite().item<bool>());
  EXPECT_EQ(policy->SelectAction(batch).sizes(), (std::vector<int64_t>{2, 6}));
}

TEST_F(ActInferenceTest, DeclaresItsBlocksAndConstantBuffers) {
  const auto policy = MakeAct(SmallAct());
  EXPECT_TRUE(policy->constant_buffers());
  EXPECT_EQ(policy->wrap_modules(),
            (std::vector<std::string>{"ACTEncoderLayer", "ACTDecoderLayer"}));
  int n_blocks = 0;
  for (const auto& module : policy->modules()) {
    const std::string name = module->name();
    n_blocks += name.ends_with("ACTEncoderLayerImpl") || name.ends_with("ACTDecoderLayerImpl");
  }
  EXPECT_EQ(n_blocks, 4);
}

TEST_F(ActInferenceTest, RefusesWhatItCannotWorkWith) {
  const auto refusal = [](const std::function<void(ActConfig&)>& change) {
    ActConfig config = DefaultAct(6, 6, {3, 96, 128});
    change(config);
    return ACTPolicy::Create(config);
  };
  const auto invalid = [](const char* text) {
    return StatusIs(StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(refusal([](ActConfig& c) {
                c.input_features[0].second.shape = {3, 31, 128};
              }),
              invalid("31 x 128"));
  EXPECT_THAT(refusal([](ActConfig& c) {
                c.input_features[0].second.shape = {96, 128, 3};
              }),
              invalid("[96, 128, 3]"));
  EXPECT_THAT(refusal([](ActConfig& c) { c.input_features.erase(c.input_features.begin()); }),
              invalid("camera"));
  EXPECT_THAT(refusal([](ActConfig& c) { c.output_features.clear(); }), invalid("'action'"));
  EXPECT_THAT(refusal([](ActConfig& c) {
                c.output_features[0].second.shape = {2, 3};
              }),
              invalid("[2, 3]"));
  EXPECT_THAT(refusal([](ActConfig& c) { c.n_heads = 7; }), invalid("7"));
  EXPECT_THAT(refusal([](ActConfig& c) { c.feedforward_activation = "glu"; }), invalid("glu"));
  EXPECT_THAT(refusal([](ActConfig& c) { c.vision_backbone = "resnet19"; }), invalid("resnet19"));
  EXPECT_THAT(refusal([](ActConfig& c) { c.replace_final_stride_with_dilation = 1; }),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("resnet50")));
}

TEST_F(ActInferenceTest, DilatedBottleneckNetworkKeepsTheResolution) {
  ActConfig config = SmallAct({{"vision_backbone", "resnet50"}, {"use_vae", false}});
  config.replace_final_stride_with_dilation = 1;
  const auto policy = MakeAct(config);
  const torch::NoGradGuard no_grad;
  const at::Tensor features = policy->backbone()->forward(at::rand({1, 3, 64, 96}));
  EXPECT_EQ(features.sizes(), (std::vector<int64_t>{1, 2048, 4, 6}));
}

}  // namespace
}  // namespace lr::worker
