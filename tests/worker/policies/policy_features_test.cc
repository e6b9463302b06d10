#include "worker/policies/policy_features.h"

#include "tests/support/status_matchers.h"
#include "worker/policies/act/act_config.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DatasetFeature Camera(std::vector<std::string> names = {"height", "width", "channels"}) {
  return {"video", {96, 128, 3}, std::move(names)};
}

DatasetFeatures Reach() {
  return {{"observation.state", {"float32", {6}, {}}},
          {"action", {"float32", {6}, {}}},
          {"observation.images.top", Camera()},
          {"observation.images.wrist", Camera()},
          {"timestamp", {"float32", {1}, {}}},
          {"next.reward", {"float32", {1}, {}}},
          {"index", {"int64", {1}, {}}}};
}

TEST(PolicyFeaturesTest, AFreshPolicyTakesTheDatasetsFeaturesInOrder) {
  ActConfig config;
  EXPECT_THAT(FillFeaturesFromDataset(config, Reach()), IsOk());
  const FeatureMap inputs = {{"observation.state", {FeatureType::kState, {6}}},
                             {"observation.images.top", {FeatureType::kVisual, {3, 96, 128}}},
                             {"observation.images.wrist", {FeatureType::kVisual, {3, 96, 128}}}};
  const FeatureMap outputs = {{"action", {FeatureType::kAction, {6}}}};
  EXPECT_EQ(config.input_features, inputs);
  EXPECT_EQ(config.output_features, outputs);
}

TEST(PolicyFeaturesTest, KeysDecideTheType) {
  ActConfig config;
  const DatasetFeatures dataset = {{"observation.environment_state", {"float32", {5}, {}}},
                                   {"observation.velocity", {"float32", {6}, {}}},
                                   {"action.gripper", {"float32", {1}, {}}},
                                   {"action", {"float32", {6}, {}}}};
  EXPECT_THAT(FillFeaturesFromDataset(config, dataset), IsOk());
  EXPECT_EQ(config.input_features[0].second.type, FeatureType::kEnv);
  EXPECT_EQ(config.input_features[1].second.type, FeatureType::kState);
  ASSERT_EQ(config.output_features.size(), 2U);
  EXPECT_EQ(config.output_features[0].first, "action.gripper");
}

TEST(PolicyFeaturesTest, ACameraWithoutAxisNamesIsGuessedAloud) {
  ActConfig config;
  DatasetFeatures dataset = {{"observation.image", Camera({})}};
  Result<std::vector<std::string>> lines = FillFeaturesFromDataset(config, dataset);
  ASSERT_THAT(lines, IsOk());
  EXPECT_EQ(config.input_features[0].second.shape, (std::vector<int64_t>{3, 96, 128}));
  ASSERT_EQ(lines->size(), 1U);
  EXPECT_THAT(lines->front(), HasSubstr("observation.image"));
  ActConfig first;
  dataset[0].second.shape = {3, 96, 128};
  EXPECT_THAT(FillFeaturesFromDataset(first, dataset), IsOk());
  EXPECT_EQ(first.input_features[0].second.shape, (std::vector<int64_t>{3, 96, 128}));
}

TEST(PolicyFeaturesTest, ACameraHasThreeAxes) {
  ActConfig config;
  const DatasetFeatures dataset = {{"observation.image", {"image", {96, 128}, {}}}};
  EXPECT_THAT(FillFeaturesFromDataset(config, dataset),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("observation.image")));
}

class PretrainedTest : public ::testing::Test {
 protected:
  PretrainedTest() { EXPECT_TRUE(FillFeaturesFromDataset(config_, Reach()).ok()); }

  ActConfig config_;
};

TEST_F(PretrainedTest, KeepsItsInputsWhenTheCamerasAreASubset) {
  const FeatureMap before = config_.input_features;
  DatasetFeatures dataset = Reach();
  dataset.erase(dataset.begin() + 3);
  EXPECT_THAT(FillFeaturesFromDataset(config_, dataset), IsOk());
  EXPECT_EQ(config_.input_features, before);
  dataset = Reach();
  dataset.push_back({"observation.images.side", Camera()});
  EXPECT_THAT(FillFeaturesFromDataset(config_, dataset), IsOk());
  EXPECT_EQ(config_.input_features, before);
}

TEST_F(PretrainedTest, OtherCameraNamesAreRefusedWithAMapToPaste) {
  DatasetFeatures dataset = Reach();
  dataset[3].first = "observation.images.hand";
  EXPECT_THAT(FillFeaturesFromDataset(config_, dataset),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy expects"),
                             HasSubstr("dataset offers"),
                             HasSubstr(R"(--rename_map='{"observation.images.hand":)"),
                             HasSubstr(R"("observation.images.wrist"}')"))));
  const std::map<std::string, std::string> names = {
      {"observation.images.hand", "observation.images.wrist"}};
  EXPECT_THAT(FillFeaturesFromDataset(config_, dataset, names), IsOk());
}

TEST_F(PretrainedTest, AnUnknownKeyOfTheMapIsAnError) {
  EXPECT_THAT(FillFeaturesFromDataset(config_, Reach(), {{"observation.images.x", "y"}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("observation.images.x")));
}

TEST_F(PretrainedTest, OtherWidthsAreRefusedWithBothShapes) {
  DatasetFeatures dataset = Reach();
  dataset[0].second.shape = {7};
  EXPECT_THAT(FillFeaturesFromDataset(config_, dataset),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("observation.state"), HasSubstr("[6]"), HasSubstr("[7]"))));
  dataset = Reach();
  dataset[1].second.shape = {5};
  EXPECT_THAT(FillFeaturesFromDataset(config_, dataset),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("action"), HasSubstr("[5]"))));
}

}  // namespace
}  // namespace lr::worker
