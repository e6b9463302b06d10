#include "worker/train/train_config_check.h"

#include <cmath>

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
  config.dataset.repo_id = "a/b";
  config.policy = std::make_shared<ActConfig>();
  config.policy->push_to_hub = false;
  config.optimizer = config.policy->OptimizerPreset();
  return config;
}

struct Case {
  const char* name;
  void (*change)(TrainConfig&);
  const char* first;
  const char* second;
};

class Checked : public ::testing::TestWithParam<Case> {};

TEST_P(Checked, IsRefusedWithFieldAndReason) {
  TrainConfig config = Plain();
  GetParam().change(config);
  EXPECT_THAT(CheckTrainConfig(config, {}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(GetParam().first), HasSubstr(GetParam().second))));
}

INSTANTIATE_TEST_SUITE_P(
    TrainConfigCheckTest,
    Checked,
    ::testing::Values(
        Case{"steps", [](TrainConfig& c) { c.steps = 0; }, "--steps=0", "at least 1"},
        Case{"batch", [](TrainConfig& c) { c.batch_size = 0; }, "--batch_size=0", "at least 1"},
        Case{"workers", [](TrainConfig& c) { c.num_workers = -1; }, "--num_workers=-1", "0"},
        Case{"tolerance", [](TrainConfig& c) { c.tolerance_s = 0; }, "--tolerance_s=0", "above"},
        Case{"tolerance_nan", [](TrainConfig& c) { c.tolerance_s = NAN; }, "tolerance_s", "above"},
        Case{"accumulation",
             [](TrainConfig& c) { c.accelerator.gradient_accumulation.steps = 0; },
             "accumulation.steps=0",
             "at least 1"},
        Case{"context",
             [](TrainConfig& c) { c.dataloader_multiprocessing_context = "thread"; },
             "=thread",
             "forkserver"},
        Case{"no_policy", [](TrainConfig& c) { c.policy = nullptr; }, "no policy", "--policy.type"},
        Case{"policys_own",
             [](TrainConfig& c) { c.policy->n_obs_steps = 2; },
             "--policy.n_obs_steps=2",
             "1"},
        Case{"rename_map",
             [](TrainConfig& c) {
               c.rename_map = {{"a", "b"}};
             },
             "--rename_map",
             "--policy.path"},
        Case{"accumulation_into_shards",
             [](TrainConfig& c) {
               c.accelerator.gradient_accumulation.mode = AccumulationMode::kShard;
             },
             "gradient_accumulation.mode=shard",
             "nosync"},
        Case{"hub_checkpoints",
             [](TrainConfig& c) { c.save_checkpoint_to_hub = true; },
             "--save_checkpoint_to_hub",
             "--policy.repo_id"},
        Case{"split", [](TrainConfig& c) { c.dataset.eval_split = 1.0; }, "eval_split=1", "below"},
        Case{"eval_steps",
             [](TrainConfig& c) { c.eval_steps = 10; },
             "--eval_steps=10",
             "--dataset.eval_split"},
        Case{"episode_twice",
             [](TrainConfig& c) {
               c.dataset.episodes = {{1, 2, 1}};
             },
             "--dataset.episodes",
             "1 is listed twice"},
        Case{"episode_negative",
             [](TrainConfig& c) { c.dataset.episodes = {{-1}}; },
             "--dataset.episodes",
             "-1 is negative"},
        Case{"bucket",
             [](TrainConfig& c) { c.dataset.repo_type = "bucket"; },
             "bucket",
             "--dataset.streaming=true"},
        Case{"backend",
             [](TrainConfig& c) { c.dataset.video_backend = "gif"; },
             "video_backend=gif",
             "torchcodec"},
        Case{"no_optimizer",
             [](TrainConfig& c) { c.optimizer.reset(); },
             "--use_policy_training_preset=false",
             "--optimizer.type"},
        Case{"rate", [](TrainConfig& c) { c.optimizer->lr = -1; }, "--optimizer.lr=-1", "0"},
        Case{"rate_nan", [](TrainConfig& c) { c.optimizer->lr = NAN; }, "--optimizer.lr", "0"},
        Case{"warm_up",
             [](TrainConfig& c) { c.scheduler = SchedulerConfig{.type = "vqbet"}; },
             "--scheduler.type=vqbet",
             "num_warmup_steps"},
        Case{"replicate",
             [](TrainConfig& c) { c.parallelism.dp_replicate = 0; },
             "dp_replicate=0",
             "at least 1"},
        Case{"ring",
             [](TrainConfig& c) { c.parallelism.context_parallel.ring_degree = 2; },
             "ring_degree=2",
             "1 only"},
        Case{"cfg", [](TrainConfig& c) { c.parallelism.cfg_parallel = 2; }, "cfg_parallel=2", "1"},
        Case{"format",
             [](TrainConfig& c) { c.checkpoint_format = CheckpointFormat::kDcp; },
             "--checkpoint_format=dcp",
             "non-sharded checkpoints are always safetensors"},
        Case{"fp16_on_cpu",
             [](TrainConfig& c) {
               c.policy->device = "cpu";
               c.accelerator.mixed_precision = MixedPrecision::kFp16;
             },
             "--accelerator.mixed_precision=fp16",
             "no loss scaler exists"},
        Case{"fp16_field",
             [](TrainConfig& c) {
               c.accelerator.fsdp.mixed_precision_policy.reduce_dtype = ParameterDtype::kFloat16;
             },
             "reduce_dtype=float16",
             "--accelerator.mixed_precision=fp16"},
        Case{"wrap_twice",
             [](TrainConfig& c) {
               c.accelerator.fsdp.wrap_modules = {{"A"}};
               c.accelerator.fsdp.min_num_params = 10;
             },
             "wrap_modules",
             "min_num_params"},
        Case{"wrap_nothing",
             [](TrainConfig& c) { c.accelerator.fsdp.wrap_modules = {{""}}; },
             "wrap_modules",
             "names no class"},
        Case{"scaler",
             [](TrainConfig& c) { c.accelerator.grad_scaler.growth_factor = 1; },
             "growth_factor=1",
             "above 1"},
        Case{"ema",
             [](TrainConfig& c) {
               c.ema.decay = 0.9;
               c.ema.max_decay = 0.5;
             },
             "--ema.decay=0.9",
             "max_decay"},
        Case{"ema_range", [](TrainConfig& c) { c.ema.min_decay = 2; }, "min_decay=2", "<= 1"}),
    [](const auto& info) { return info.param.name; });

TEST(TrainConfigCheckTest, APlainConfigurationPasses) {
  EXPECT_THAT(CheckTrainConfig(Plain(), {}), IsOk());
  EXPECT_TRUE(TrainConfigWarnings(Plain()).empty());
}

TEST(TrainConfigCheckTest, PublishingIsAnErrorOnlyWhenAskedForWithoutATarget) {
  TrainConfig config = Plain();
  config.policy->push_to_hub = true;
  EXPECT_THAT(CheckTrainConfig(config, {}), IsOk());
  EXPECT_THAT(CheckTrainConfig(config, {"policy.push_to_hub"}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--policy.repo_id"), HasSubstr("push_to_hub=false"))));
  config.policy->repo_id = "me/arm";
  EXPECT_THAT(CheckTrainConfig(config, {"policy.push_to_hub"}), IsOk());
}

TEST(TrainConfigCheckTest, ShardedRunsMayChooseTheFormat) {
  EXPECT_THAT(CheckCheckpointFormat(CheckpointFormat::kDcp, true), IsOk());
  EXPECT_THAT(CheckCheckpointFormat(CheckpointFormat::kSafetensors, false), IsOk());
  EXPECT_THAT(CheckCheckpointFormat(CheckpointFormat::kSafetensorsDcp, false),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("safetensors_dcp")));
}

}  // namespace
}  // namespace lr::worker
