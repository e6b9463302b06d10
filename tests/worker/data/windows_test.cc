/// Windows over keys, clamping at episode ends, and which held-out rows are visited.
#include "worker/data/windows.h"

#include <gtest/gtest.h>

#include "worker/data/held_out.h"
#include "worker/data/normalization_mode.h"

namespace lr::worker {
namespace {

DatasetFeatures SomeFeatures() {
  return {{"observation.state", {"float32", {6}, {}}},
          {"observation.images.top", {"video", {96, 128, 3}, {}}},
          {"action", {"float32", {6}, {}}},
          {"next.reward", {"float32", {1}, {}}},
          {"timestamp", {"float32", {1}, {}}}};
}

TEST(WindowsTest, LaysThePolicysWindowsOverTheKeys) {
  const WindowMap windows =
      MakeWindows(SomeFeatures(), {.observation = {-1, 0}, .action = {0, 1, 2}, .reward = {0, 1}});
  EXPECT_EQ(windows,
            (WindowMap{{"observation.state", {-1, 0}},
                       {"observation.images.top", {-1, 0}},
                       {"action", {0, 1, 2}},
                       {"next.reward", {0, 1}}}));
}

TEST(WindowsTest, LeavesKeysWithoutAWindowSingle) {
  EXPECT_EQ(MakeWindows(SomeFeatures(), {.action = {0, 1}}), (WindowMap{{"action", {0, 1}}}));
}

TEST(WindowsTest, DecidesByTheNewNameAndKeysByTheOld) {
  DatasetFeatures features = {{"top", {"video", {96, 128, 3}, {}}}};
  EXPECT_EQ(MakeWindows(features, {.observation = {0, 1}}, {{"top", "observation.images.front"}}),
            (WindowMap{{"top", {0, 1}}}));
}

TEST(WindowsTest, RepeatsTheFramesAtBothEnds) {
  const auto at = [](int64_t current, int64_t offset) {
    return FrameAtOffset(Frame{current}, offset, Frame{10}, Frame{20});
  };
  EXPECT_EQ(at(12, 3).frame, Frame{15});
  EXPECT_FALSE(at(12, 3).is_pad);
  EXPECT_EQ(at(10, -1).frame, Frame{10});
  EXPECT_TRUE(at(10, -1).is_pad);
  EXPECT_EQ(at(18, 2).frame, Frame{19});
  EXPECT_TRUE(at(18, 2).is_pad);
  EXPECT_FALSE(at(18, 1).is_pad);
}

TEST(HeldOutRowsTest, TakesTheFirstRowsOfEveryTask) {
  const std::vector<int64_t> tasks = {0, 0, 0, 1, 1, 1};
  EXPECT_EQ(HeldOutRows(tasks, 0).size(), 6U);
  EXPECT_EQ(HeldOutRows(tasks, 4), (std::vector<Row>{{0}, {1}, {3}, {4}}));
  EXPECT_EQ(HeldOutRows(tasks, 1), (std::vector<Row>{{0}, {3}}));
  EXPECT_TRUE(HeldOutRows({}, 5).empty());
}

TEST(NormalizationModeTest, NamesReadBack) {
  for (const auto* name : {"IDENTITY", "MEAN_STD", "MIN_MAX", "QUANTILES", "QUANTILE10"}) {
    const auto mode = ParseNormalizationMode(name);
    ASSERT_TRUE(mode.has_value()) << name;
    EXPECT_EQ(NormalizationModeName(*mode), name);
  }
  EXPECT_EQ(ParseNormalizationMode("mean_std"), std::nullopt);
}

}  // namespace
}  // namespace lr::worker
