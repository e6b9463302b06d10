#include "worker/train/unsupported.h"

#include <set>

#include "tests/support/status_matchers.h"
#include "worker/policies/act/act_config.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TrainConfig Plain() {
  TrainConfig config;
  config.policy = std::make_shared<ActConfig>();
  config.policy->push_to_hub = false;
  return config;
}

struct Case {
  const char* name;
  void (*change)(TrainConfig&);
  const char* sentence;
};

class Unsupported : public ::testing::TestWithParam<Case> {};

TEST_P(Unsupported, IsRefusedWithItsFlagAndValue) {
  TrainConfig config = Plain();
  GetParam().change(config);
  const std::vector<std::string> sentences = UnsupportedSettings(config);
  ASSERT_EQ(sentences.size(), 1U);
  EXPECT_THAT(sentences[0], HasSubstr(GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    UnsupportedTest,
    Unsupported,
    ::testing::Values(
        Case{"compile",
             [](TrainConfig& c) { c.accelerator.compile.enabled = true; },
             "compile.enabled=true"},
        Case{"peft", [](TrainConfig& c) { c.peft.emplace(); }, "--peft"},
        Case{"ema", [](TrainConfig& c) { c.ema.enable = true; }, "--ema.enable=true"},
        Case{"weighting",
             [](TrainConfig& c) { c.sample_weighting.emplace(); },
             "--sample_weighting"},
        Case{"transforms",
             [](TrainConfig& c) { c.dataset.image_transforms.enable = true; },
             "image_transforms.enable=true"},
        Case{"streaming",
             [](TrainConfig& c) { c.dataset.streaming = true; },
             "--dataset.streaming=true"},
        Case{"env",
             [](TrainConfig& c) {
               c.env = {{"type", "pusht"}};
             },
             "pusht"},
        Case{"reward", [](TrainConfig& c) { c.reward_model = "x"; }, "--reward_model"},
        Case{"job", [](TrainConfig& c) { c.job.target = "a100"; }, "--job.target=a100"},
        Case{"wandb", [](TrainConfig& c) { c.wandb.enable = true; }, "--trackio.enable=true"},
        Case{"trackio", [](TrainConfig& c) { c.trackio.enable = true; }, "--trackio.enable=true"},
        Case{"hub_checkpoints",
             [](TrainConfig& c) {
               c.save_checkpoint_to_hub = true;
               c.checkpoint_format = CheckpointFormat::kDcp;
             },
             "--checkpoint_format=safetensors_dcp"},
        Case{"multi_adam",
             [](TrainConfig& c) { c.optimizer = OptimizerConfig{.type = "multi_adam"}; },
             "multi_adam"},
        Case{"rank_noise",
             [](TrainConfig& c) { c.seed_offset_per_rank = true; },
             "--seed_offset_per_rank=true"}),
    [](const auto& info) { return info.param.name; });

TEST(UnsupportedTest, APlainConfigurationPasses) {
  EXPECT_THAT(CheckSupported(Plain()), IsOk());
}

TEST(UnsupportedTest, ALocalJobIsAnOrdinaryRun) {
  TrainConfig config = Plain();
  config.job.target = "local";
  EXPECT_THAT(CheckSupported(config), IsOk());
}

TEST(UnsupportedTest, AllSentencesComeTogether) {
  TrainConfig config = Plain();
  config.ema.enable = true;
  config.dataset.streaming = true;
  EXPECT_THAT(
      CheckSupported(config),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("--dataset.streaming=true"), HasSubstr("\n--ema.enable=true"))));
}

}  // namespace
}  // namespace lr::worker
