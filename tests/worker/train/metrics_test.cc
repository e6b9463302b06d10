#include "worker/train/metrics.h"

#include "tests/support/status_matchers.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;

const ReduceValues kOneProcess = [](std::vector<float>&, MetricReduction) { return Status(); };
const GatherTexts kAlone = [](const std::string& text) {
  return Result<std::vector<std::string>>({text});
};

TEST(MetricsWindowTest, LineIsTheOneOfTheReferenceTrainer) {
  MetricsWindow window(/*with_memory=*/true);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, double>>{{"loss", 6.1234},
                                                   {"grad_norm", 153.2009},
                                                   {"lr", 1e-5},
                                                   {"dataloading_s", 0.004},
                                                   {"preprocessing_s", 0.003},
                                                   {"update_s", 0.098},
                                                   {"step_s", 0.106},
                                                   {"gpu_mem_gb", 5.21},
                                                   {"l1_loss", 0.512},
                                                   {"kld_loss", 0.561}}) {
    window.Add(name, value);
  }
  ASSERT_THAT(window.Reduce(16, kOneProcess, kAlone), IsOk());
  EXPECT_EQ(window.Line(ProgressAt(200, 16, 25650, 50)),
            "step:200 smpl:3K ep:6 epch:0.12 loss:6.123 grdn:153.201 lr:1.0e-05 data_s:0.004 "
            "prep_s:0.003 updt_s:0.098 "
            "step_s:0.106 samples/s:151 mem_gb:5.21 l1_loss:0.512 kld_loss:0.561");
}

TEST(MetricsWindowTest, AWindowIsTheMeanSinceTheLastLog) {
  MetricsWindow window(false);
  window.Add("loss", 1.0);
  window.Add("loss", 3.0);
  EXPECT_DOUBLE_EQ(window.value("loss"), 2.0);
  window.Reset();
  EXPECT_DOUBLE_EQ(window.value("loss"), 0.0);
  EXPECT_NE(window.Line(ProgressAt(1, 4, 100, 2)).find("grdn:0.000"), std::string::npos);
}

TEST(MetricsWindowTest, LossesAreAveragedAndTimingsAreTheSlowestRanks) {
  MetricsWindow window(false);
  window.Add("loss", 1.0);
  window.Add("step_s", 0.1);
  // The other rank: loss 3, step 0.4 s.
  const ReduceValues two_ranks = [](std::vector<float>& values, MetricReduction kind) {
    if (kind == MetricReduction::kMean && values.size() == 1) {
      values[0] = (values[0] + 3.0F) / 2;
    } else if (kind == MetricReduction::kMax) {
      values.back() = std::max(values.back(), 0.4F);
    }
    return Status();
  };
  const GatherTexts names = [](const std::string& text) {
    return Result<std::vector<std::string>>({text, ""});
  };
  ASSERT_THAT(window.Reduce(16, two_ranks, names), IsOk());
  EXPECT_DOUBLE_EQ(window.value("loss"), 2.0);
  EXPECT_NEAR(window.value("samples_per_s"), 16 / 0.4, 1e-4);
}

TEST(MetricsWindowTest, RankDependentScalarsNeitherHangNorShiftValues) {
  MetricsWindow window(false);
  window.Add("b_loss", 4.0);  // the other rank has a_loss = 6 and b_loss = 2
  const GatherTexts names = [](const std::string& text) {
    return Result<std::vector<std::string>>({text, "b_loss\na_loss"});
  };
  const ReduceValues two_ranks = [](std::vector<float>& values, MetricReduction kind) {
    if (kind == MetricReduction::kMean && values.size() == 4) {  // a: sum, share, b: sum, share
      const std::vector<float> other = {6.0F, 1.0F, 2.0F, 1.0F};
      for (size_t i = 0; i < 4; ++i) {
        values[i] = (values[i] + other[i]) / 2;
      }
    }
    return Status();
  };
  ASSERT_THAT(window.Reduce(8, two_ranks, names), IsOk());
  EXPECT_DOUBLE_EQ(window.value("a_loss"), 6.0);
  EXPECT_DOUBLE_EQ(window.value("b_loss"), 3.0);
}

TEST(MetricsWindowTest, FixedNamesAreKnown) {
  const MetricsWindow window(false);
  EXPECT_TRUE(window.is_fixed("loss"));
  EXPECT_FALSE(window.is_fixed("l1_loss"));
  EXPECT_FALSE(window.is_fixed("gpu_mem_gb"));
}

}  // namespace
}  // namespace lr::worker
