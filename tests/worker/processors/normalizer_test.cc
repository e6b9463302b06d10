/// Normalising against recorded pairs in every mode and two precisions, and its edge cases.
#include "worker/processors/normalizer.h"

#include <torch/torch.h>

#include "tests/support/status_matchers.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr NormalizationMode kModes[] = {NormalizationMode::kIdentity,
                                        NormalizationMode::kMeanStd,
                                        NormalizationMode::kMinMax,
                                        NormalizationMode::kQuantiles,
                                        NormalizationMode::kQuantile10};

const FeatureMap kFeatures = {{"observation.state", {FeatureType::kState, {4}}},
                              {"observation.images.top", {FeatureType::kVisual, {3, 4, 6}}},
                              {"observation.environment_state", {FeatureType::kEnv, {2}}},
                              {"action", {FeatureType::kAction, {3}}}};

/// ENV has no entry: such features pass unchanged.
NormalizationMap ModesOf(NormalizationMode mode) {
  return {{"STATE", mode}, {"VISUAL", mode}, {"ACTION", mode}};
}

class NormalizePairsTest : public ::testing::TestWithParam<NormalizationMode> {
 protected:
  void SetUp() override {
    auto file = SafetensorsFile::Open(std::string(LR_TEST_DATA) +
                                      "/processors/normalize_pairs.safetensors");
    ASSERT_THAT(file, IsOk());
    auto all = file->LoadAll();
    ASSERT_THAT(all, IsOk());
    for (const auto& [name, tensor] : *all) {
      tensors_[name] = tensor;
      if (name.starts_with("stats/")) {
        const size_t dot = name.rfind('.');
        stats_[name.substr(6, dot - 6)][name.substr(dot + 1)] = tensor;
      }
    }
  }

  /// Both directions for every feature, compared with the recorded tensors.
  void Compare(const std::string& dtype, double rtol) {
    const Normalizer normalizer(kFeatures, ModesOf(GetParam()), stats_);
    const std::string prefix = std::string(NormalizationModeName(GetParam())) + "/" + dtype + "/";
    for (const auto& [key, feature] : kFeatures) {
      SCOPED_TRACE(prefix + key);
      const at::Tensor& wanted = tensors_.at(prefix + "normalised/" + key);
      const at::Tensor input = tensors_.at("in/" + key).to(wanted.scalar_type());
      const auto forward = normalizer.Normalize(key, input);
      ASSERT_THAT(forward, IsOk());
      ExpectClose(*forward, wanted, rtol);
      const auto back = normalizer.Unnormalize(key, wanted);
      ASSERT_THAT(back, IsOk());
      ExpectClose(*back, tensors_.at(prefix + "back/" + key), rtol);
    }
  }

  static void ExpectClose(const at::Tensor& found, const at::Tensor& wanted, double rtol) {
    EXPECT_EQ(found.scalar_type(), wanted.scalar_type());
    EXPECT_EQ(found.sizes(), wanted.sizes());
    EXPECT_TRUE(at::allclose(found, wanted, rtol, /*atol=*/1e-7))
        << "largest difference "
        << (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max().item<double>();
  }

  TensorMap tensors_;
  Statistics stats_;
};

TEST_P(NormalizePairsTest, EqualsTheReferenceInFloat32) {
  Compare("float32", 1e-6);
}

TEST_P(NormalizePairsTest, EqualsTheReferenceInBfloat16) {
  if (tensors_.count(std::string(NormalizationModeName(GetParam())) +
                     "/bfloat16/normalised/action") == 0) {
    GTEST_SKIP() << "not recorded";
  }
  Compare("bfloat16", 0.0);
}

TEST_P(NormalizePairsTest, LeavesTheInputAlone) {
  const Normalizer normalizer(kFeatures, ModesOf(GetParam()), stats_);
  const at::Tensor input = tensors_.at("in/action").clone();
  ASSERT_THAT(normalizer.Normalize("action", input), IsOk());
  ASSERT_THAT(normalizer.Unnormalize("action", input), IsOk());
  EXPECT_TRUE(at::equal(input, tensors_.at("in/action")));
}

INSTANTIATE_TEST_SUITE_P(Modes,
                         NormalizePairsTest,
                         ::testing::ValuesIn(kModes),
                         [](const auto& mode) {
                           return std::string(NormalizationModeName(mode.param));
                         });

Statistics OneFeature(std::map<std::string, at::Tensor> group) {
  return {{"action", std::move(group)}};
}

const FeatureMap kAction = {{"action", {FeatureType::kAction, {2}}}};

TEST(NormalizerTest, AConstantDimensionExplodesAsInTheReference) {
  const Normalizer normalizer(
      kAction,
      {{"ACTION", NormalizationMode::kMinMax}},
      OneFeature({{"min", at::tensor({1.0F, 0.0F})}, {"max", at::tensor({1.0F, 2.0F})}}));
  const auto found = normalizer.Normalize("action", at::tensor({1.0F, 1.0F}));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)[0].item<float>(), -1.0F);
  EXPECT_EQ((*found)[1].item<float>(), 0.0F);
  const auto noisy = normalizer.Normalize("action", at::tensor({1.5F, 1.0F}));
  EXPECT_GT((*noisy)[0].item<float>(), 9e7F);
}

TEST(NormalizerTest, StatisticsFollowTheInputsType) {
  const Normalizer normalizer(
      kAction,
      {{"ACTION", NormalizationMode::kMeanStd}},
      OneFeature({{"mean", at::tensor({1.0F, 2.0F})}, {"std", at::tensor({1.0F, 2.0F})}}));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const auto found = normalizer.Normalize("action", at::ones({3, 2}, type));
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->scalar_type(), type);
    EXPECT_NEAR((*found)[2][1].item<double>(), -0.5, 1e-8);  // the deviation plus 1e-8
  }
}

TEST(NormalizerTest, PassesWhatHasNoStatisticsAndRefusesHalfOfThem) {
  const Normalizer none(kAction, {{"ACTION", NormalizationMode::kMeanStd}}, {});
  const auto same = none.Normalize("action", at::tensor({3.0F, 4.0F}));
  ASSERT_THAT(same, IsOk());
  EXPECT_TRUE(at::equal(*same, at::tensor({3.0F, 4.0F})));
  EXPECT_THAT(none.Normalize("unknown.key", at::tensor({3.0F})), IsOk());
  const Normalizer half(kAction,
                        {{"ACTION", NormalizationMode::kQuantiles}},
                        OneFeature({{"q01", at::tensor({0.0F, 0.0F})}}));
  EXPECT_THAT(half.Normalize("action", at::tensor({3.0F, 4.0F})),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("action: QUANTILES needs the statistics q01 and q99")));
}

TEST(CheckNormalizationTest, ListsEveryFeatureThatLacksStatistics) {
  const NormalizationMap modes = {{"STATE", NormalizationMode::kMeanStd},
                                  {"ACTION", NormalizationMode::kMinMax},
                                  {"VISUAL", NormalizationMode::kIdentity}};
  const Statistics stats = OneFeature({{"min", at::zeros({3})}});
  EXPECT_THAT(
      CheckNormalization(kFeatures, modes, stats),
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("observation.state (MEAN_STD needs mean and std; there: nothing)"),
                     HasSubstr("action (MIN_MAX needs min and max; there: min)"),
                     HasSubstr("--policy.normalization_mapping"))));
  EXPECT_THAT(CheckNormalization(kFeatures, ModesOf(NormalizationMode::kIdentity), {}), IsOk());
}

TEST(ConstantDimensionsTest, NamesThem) {
  const NormalizationMap modes = {{"ACTION", NormalizationMode::kMinMax}};
  const Statistics stats = OneFeature(
      {{"min", at::tensor({0.0F, 1.0F, 2.0F})}, {"max", at::tensor({0.0F, 2.0F, 2.0F})}});
  EXPECT_THAT(ConstantDimensions(kFeatures, modes, stats),
              ElementsAre(HasSubstr("action: dimensions 0, 2 never change")));
  EXPECT_THAT(ConstantDimensions(kFeatures, {}, stats), IsEmpty());
}

}  // namespace
}  // namespace lr::worker
