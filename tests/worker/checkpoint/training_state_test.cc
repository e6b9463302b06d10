// training_step.json and scheduler_state.json: LeRobot's own text is reproduced, old and odd forms
// are read.
#include <ATen/ATen.h>

#include "common/contract/checkpoint_layout.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"
#include "tests/worker/checkpoint/fake_checkpoint.h"
#include "worker/checkpoint/scaler_file.h"
#include "worker/checkpoint/scheduler_file.h"
#include "worker/checkpoint/training_step.h"
#include "worker/optim/optimizer.h"

namespace lr::worker {
namespace {

using ::lr::testing::Fixture;
using ::lr::testing::FixtureSchedule;
using ::lr::testing::IsOk;
using ::lr::testing::ReadBytes;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::lr::testing::WriteBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TrainingStep FixtureStep() {
  TrainingStep step;
  step.step = 3;
  step.dp_world_size = 1;
  step.batch_size = 2;
  step.grad_accum_steps = 1;
  step.parallelism = SavedTopology{};
  return step;
}

TEST(TrainingStepTest, UpstreamsKeysGiveUpstreamsText) {
  EXPECT_EQ(DumpPythonJson(TrainingStepJson(FixtureStep()), 4),
            ReadBytes(Fixture("lerobot/single/checkpoints/000003") / kTrainingStepPath));
}

TEST(TrainingStepTest, OwnKeysFollowAndComeBack) {
  TrainingStep step = FixtureStep();
  step.mixed_precision = "bf16";
  step.dataset_frames = 200;
  step.dataset_episodes = 4;
  step.sampler_positions = 180;
  step.environment_overrides_acknowledged = {{"ACCELERATE_USE_FSDP", "true"}};
  const Json json = TrainingStepJson(step);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys,
              ElementsAre("step",
                          "dp_world_size",
                          "batch_size",
                          "grad_accum_steps",
                          "parallelism",
                          "mixed_precision",
                          "dataset_frames",
                          "dataset_episodes",
                          "sampler_positions",
                          "environment_overrides_acknowledged"));
  const Result<TrainingStep> parsed = ParseTrainingStep(json);
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(TrainingStepJson(*parsed), json);
}

TEST(TrainingStepTest, OnlyTheStepIsMandatoryAndOldKeysStandIn) {
  const Result<TrainingStep> parsed = ParseTrainingStep(*ParseJson(
      R"({"step": 9, "num_processes": 4, "precision": "fp16", "batch_size": null, "odd": []})"));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->step, 9);
  EXPECT_EQ(parsed->dp_world_size, 4);
  EXPECT_EQ(parsed->mixed_precision, "fp16");
  EXPECT_EQ(parsed->batch_size, std::nullopt);
  EXPECT_EQ(parsed->parallelism, std::nullopt);
  EXPECT_THAT(ParseTrainingStep(*ParseJson("{}")),
              StatusIs(StatusCode::kInvalidArgument, "`step` is missing"));
  EXPECT_THAT(ParseTrainingStep(*ParseJson(R"({"step": 1.5})")),
              StatusIs(StatusCode::kInvalidArgument, "`step` is 1.5, not a count"));
  EXPECT_THAT(ParseTrainingStep(*ParseJson(R"({"step": -1})")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a count")));
  EXPECT_THAT(ParseTrainingStep(*ParseJson(R"({"step": 1, "parallelism": 2})")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not an object")));
}

TEST(TrainingStepTest, ChangesAreListedOldToNewAndUnknownOnesSkipped) {
  TrainingStep current = FixtureStep();
  current.grad_accum_steps = 2;
  current.parallelism->dp_replicate = 4;
  EXPECT_THAT(TopologyChanges(FixtureStep(), current),
              ElementsAre("grad_accum_steps: 1 -> 2", "dp_replicate: 1 -> 4"));
  TrainingStep unknown;
  EXPECT_TRUE(TopologyChanges(unknown, current).empty());
}

std::unique_ptr<Optimizer> TwoGroups() {
  OptimizerConfig config;
  config.type = "adamw";
  config.lr = 1e-3;
  OptimizerGroup first;
  first.names = {"a"};
  first.params = {at::ones({2})};
  OptimizerGroup second;
  second.names = {"b"};
  second.params = {at::ones({2})};
  second.lr = 1e-4;
  second.lr_is_own = true;
  return std::move(Optimizer::Create(config, {first, second})).value();
}

TEST(SchedulerFileTest, ReadsAndReproducesLeRobotsFile) {
  const std::filesystem::path file =
      Fixture("lerobot/single/checkpoints/000003") / kSchedulerStatePath;
  const std::unique_ptr<Optimizer> optimizer = TwoGroups();
  LrScheduler scheduler(*optimizer, FixtureSchedule());
  ASSERT_THAT(LoadScheduler(file, scheduler), IsOk());
  EXPECT_EQ(scheduler.last_epoch(), 3);
  EXPECT_EQ(DumpPythonJson(SchedulerState(scheduler), 4), ReadBytes(file));
}

TEST(SchedulerFileTest, OldFormsAreReadAndFaultsNamed) {
  const TempDirectory folder;
  const std::unique_ptr<Optimizer> optimizer = TwoGroups();
  LrScheduler scheduler(*optimizer, [](int64_t) { return 1.0; });
  WriteBytes(folder / "s", R"({"last_epoch": 5, "verbose": false, "lr_lambdas": [{}, {}]})");
  ASSERT_THAT(LoadScheduler(folder / "s", scheduler), IsOk());
  EXPECT_EQ(scheduler.last_epoch(), 5);
  WriteBytes(folder / "s", R"({"base_lrs": [0.1], "last_epoch": 5})");
  EXPECT_THAT(LoadScheduler(folder / "s", scheduler),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("has 1 values, the optimizer has 2 groups")));
  WriteBytes(folder / "s", R"({"base_lrs": [0.1, NaN], "last_epoch": 5})");
  EXPECT_THAT(LoadScheduler(folder / "s", scheduler),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("base_lrs[1]")));
  WriteBytes(folder / "s", "{}");
  EXPECT_THAT(LoadScheduler(folder / "s", scheduler),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("`last_epoch` is missing")));
}

TEST(ScalerFileTest, ExtremesComeBackExactly) {
  const TempDirectory folder;
  for (const double scale : {65536.0, 1.7014118346046923e38, 7.174648137343064e-43, 0.0}) {
    const GradScalerState state{.scale = scale, .growth_factor = 1.5, .growth_tracker = 17};
    WriteBytes(folder / "scaler_state.json", DumpPythonJson(ScalerStateJson(state), 4));
    const Result<GradScalerState> read = ReadScalerState(folder / "scaler_state.json");
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, state);
  }
}

TEST(ScalerFileTest, HasTorchsKeysInTorchsOrder) {
  EXPECT_EQ(
      DumpPythonJson(ScalerStateJson({}), -1),
      R"({"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 0})");
}

TEST(ScalerFileTest, WhatNoScalerHasIsRefused) {
  const TempDirectory folder;
  for (
      const char* text :
      {"[]",
       "{}",
       R"({"scale": "x", "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 0})",
       R"({"scale": -1.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 0})",
       R"({"scale": 1.0, "growth_factor": 1.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 0})",
       R"({"scale": 1.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 0, "_growth_tracker": 0})",
       R"({"scale": 1.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2.5, "_growth_tracker": 0})"}) {
    WriteBytes(folder / "scaler_state.json", text);
    EXPECT_THAT(ReadScalerState(folder / "scaler_state.json"),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("scaler_state.json")))
        << text;
  }
}

}  // namespace
}  // namespace lr::worker
