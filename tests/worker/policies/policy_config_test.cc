#include "worker/policies/policy_config.h"

#include "common/io/atomic_file.h"
#include "tests/support/status_matchers.h"
#include "worker/policies/act/act_config.h"
#include "worker/policies/policy_types.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PolicyConfigTest, TheFileThatLeRobotWroteComesBackByteForByte) {
  const std::string path = std::string(LR_TEST_DATA) + "/act_small/config.json";
  const Result<Json> json = ReadJsonFile(path);
  ASSERT_THAT(json, IsOk());
  const auto config = PolicyConfigFromJson(*json);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ((*config)->input_features[1].first, "observation.images.top");
  EXPECT_EQ((*config)->input_features[1].second.shape, (std::vector<int64_t>{3, 96, 128}));
  EXPECT_EQ(DumpPythonJson(ToJson(**config), 4), *ReadFile(path));
}

TEST(PolicyConfigTest, UnknownKeysAreKept) {
  const auto config = PolicyConfigFromJson({{"type", "act"}, {"new_head", {{"a", 1}}}});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(ToJson(**config)["new_head"]["a"], 1);
}

TEST(PolicyConfigTest, AnIntegerThatPythonWritesAsABoolReadsInBothForms) {
  for (const Json& value : {Json(false), Json(0)}) {
    const auto config =
        PolicyConfigFromJson({{"type", "act"}, {"replace_final_stride_with_dilation", value}});
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(ToJson(**config)["replace_final_stride_with_dilation"].dump(), "false");
  }
}

TEST(PolicyConfigTest, BadFilesAreRefusedWithTheKey) {
  EXPECT_THAT(PolicyConfigFromJson({{"chunk_size", 3}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'type'")));
  EXPECT_THAT(PolicyConfigFromJson({{"type", "act"}, {"chunk_size", 2.5}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("chunk_size")));
  EXPECT_THAT(PolicyConfigFromJson({{"type", "act"}, {"input_features", {{"a", 3}}}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("input_features")));
  EXPECT_THAT(
      PolicyConfigFromJson(
          {{"type", "act"}, {"input_features", {{"a", {{"type", "SOUND"}, {"shape", {1}}}}}}}),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("SOUND"), HasSubstr("VISUAL"))));
  EXPECT_THAT(
      PolicyConfigFromJson({{"type", "act"}, {"normalization_mapping", {{"SOUND", "MEAN_STD"}}}}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("SOUND")));
  EXPECT_FALSE(PolicyConfigFromJson(Json::array()).ok());
}

TEST(PolicyTypesTest, KnownAndUnknownNamesAreToldApart) {
  EXPECT_THAT(MakePolicyConfig("act"), IsOk());
  EXPECT_THAT(MakePolicyConfig("pi0"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("known upstream, not available")));
  EXPECT_THAT(MakePolicyConfig("difusion"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("did you mean diffusion?")));
}

TEST(ActConfigTest, DefaultsWindowsAndPreset) {
  const ActConfig config;
  EXPECT_THAT(config.Validate(), IsOk());
  EXPECT_EQ(config.Windows().action.size(), 100U);
  EXPECT_EQ(config.Windows().action.back(), 99);
  EXPECT_TRUE(config.Windows().observation.empty());
  EXPECT_EQ(config.OptimizerPreset().type, "adamw");
  EXPECT_EQ(config.OptimizerPreset().lr, 1e-5);
  EXPECT_EQ(config.OptimizerPreset().weight_decay, 1e-4);
  EXPECT_EQ(config.SchedulerPreset(), std::nullopt);
}

TEST(ActConfigTest, ACopyIsItsOwn) {
  ActConfig config;
  config.chunk_size = 7;
  const std::unique_ptr<PolicyConfig> copy = config.Clone();
  config.chunk_size = 8;
  EXPECT_EQ(dynamic_cast<const ActConfig&>(*copy).chunk_size, 7);
}

struct Case {
  const char* name;
  void (*change)(ActConfig&);
  const char* says;
};

class ActRefuses : public ::testing::TestWithParam<Case> {};

TEST_P(ActRefuses, WhatCannotWork) {
  ActConfig config;
  config.input_features = {{"observation.state", {FeatureType::kState, {6}}},
                           {"observation.images.top", {FeatureType::kVisual, {3, 96, 128}}}};
  config.output_features = {{"action", {FeatureType::kAction, {6}}}};
  ASSERT_THAT(config.Validate(), IsOk());
  GetParam().change(config);
  EXPECT_THAT(config.Validate(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    ActConfigTest,
    ActRefuses,
    ::testing::Values(
        Case{"backbone", [](ActConfig& c) { c.vision_backbone = "vit"; }, "vision_backbone=vit"},
        Case{"ensemble", [](ActConfig& c) { c.temporal_ensemble_coeff = 0.01; }, "must be 1"},
        Case{"actions", [](ActConfig& c) { c.n_action_steps = 101; }, "exceeds"},
        Case{"observations", [](ActConfig& c) { c.n_obs_steps = 2; }, "n_obs_steps=2"},
        Case{"heads", [](ActConfig& c) { c.n_heads = 7; }, "n_heads=7"},
        Case{"odd_width",
             [](ActConfig& c) {
               c.dim_model = 33;
               c.n_heads = 3;
             },
             "dim_model=33"},
        Case{"zero_heads", [](ActConfig& c) { c.n_heads = 0; }, "n_heads=0"},
        Case{"glu", [](ActConfig& c) { c.feedforward_activation = "glu"; }, "glu"},
        Case{"activation", [](ActConfig& c) { c.feedforward_activation = "tanh"; }, "tanh"},
        Case{"dropout", [](ActConfig& c) { c.dropout = 1.0; }, "dropout=1"},
        Case{"small_image",
             [](ActConfig& c) {
               c.input_features[1].second.shape = {3, 16, 64};
             },
             "32"},
        Case{"no_action", [](ActConfig& c) { c.output_features.clear(); }, "'action'"},
        Case{"wide_action",
             [](ActConfig& c) {
               c.output_features[0].second.shape = {2, 3};
             },
             "'action'"},
        Case{"no_image", [](ActConfig& c) { c.input_features.pop_back(); }, "camera"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lr::worker
