/// Items of the four recorded datasets (AV1, H.264, PNG in parquet, gym-pusht) against what the
/// reference reads: numbers and stored frames exactly, the other frames by their block means.
#include <torch/torch.h>

#include "tests/worker/data/dataset_fixture.h"
#include "tests/worker/data/fixture_json.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using nlohmann::json;
using testing::ExpectNumbers;
using testing::Levels;
using testing::OpenDataset;
using testing::ReadRows;

const json& Expected() {
  static const json expected = testing::ReadFixture("dataset_expected.json");
  return expected;
}

std::vector<int64_t> Indices(const json& items, const char* key = "at") {
  std::vector<int64_t> indices;
  for (const json& item : items) {
    indices.push_back(item[key]);
  }
  return indices;
}

void ExpectFrame(const at::Tensor& frame, const json& expected) {
  EXPECT_EQ(frame.sizes().vec(), expected["shape"].get<std::vector<int64_t>>());
  EXPECT_EQ(frame.scalar_type(), expected["dtype"] == "uint8" ? at::kByte : at::kFloat);
  const at::Tensor levels = Levels(frame);
  const at::Tensor blocks =
      levels.reshape({3, 8, levels.size(1) / 8, 8, levels.size(2) / 8}).mean({2, 4});
  for (int64_t channel = 0; channel < 3; ++channel) {
    const auto at = static_cast<size_t>(channel);
    EXPECT_NEAR(
        levels[channel].mean().item<double>(), expected["channel_mean"][at].get<double>(), 1e-3);
    for (int64_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(blocks[channel].flatten()[i].item<double>(),
                  expected["block8x8"][at][static_cast<size_t>(i / 8)][static_cast<size_t>(i % 8)]
                      .get<double>(),
                  0.0051);
    }
  }
  if (expected.contains("full_frame")) {
    auto frames =
        SafetensorsFile::Open(testing::DatasetFolder("dataset_expected_frames.safetensors"));
    ASSERT_THAT(frames, IsOk());
    auto full = frames->Load(expected["full_frame"]);
    ASSERT_THAT(full, IsOk());
    EXPECT_TRUE(at::equal(levels.round().to(at::kByte), *full)) << expected["full_frame"];
  }
}

class RecordedDatasetTest : public ::testing::TestWithParam<std::string> {
 protected:
  const json& expected() const { return Expected()["datasets"][GetParam()]; }
};

TEST_P(RecordedDatasetTest, DescribesItself) {
  const auto dataset = OpenDataset(GetParam());
  EXPECT_EQ(dataset->size(), expected()["num_frames"]);
  EXPECT_EQ(dataset->num_episodes(), expected()["num_episodes"]);
  EXPECT_EQ(dataset->fps(), expected()["fps"]);
  EXPECT_EQ(dataset->metadata().info().camera_keys(),
            expected()["camera_keys"].get<std::vector<std::string>>());
  for (const EpisodeRecord& record : dataset->metadata().episodes()) {
    const json& episode = expected()["episodes"][static_cast<size_t>(record.episode)];
    EXPECT_EQ(record.from.number, episode["from"]);
    EXPECT_EQ(record.to.number, episode["to"]);
    EXPECT_EQ(record.tasks, episode["tasks"].get<std::vector<std::string>>());
    for (const auto& [camera, video] : episode["videos"].items()) {
      auto file = dataset->metadata().VideoFile(record, camera);
      ASSERT_THAT(file, IsOk());
      EXPECT_EQ(std::filesystem::relative(*file, dataset->metadata().root()),
                video["file"].get<std::string>());
      EXPECT_EQ(record.videos.at(camera).from_timestamp, video["from_timestamp"]);
      EXPECT_EQ(record.videos.at(camera).to_timestamp, video["to_timestamp"]);
    }
  }
}

TEST_P(RecordedDatasetTest, HasTheRecordedStatistics) {
  const auto dataset = OpenDataset(GetParam(), {.use_imagenet_stats = false});
  ASSERT_EQ(dataset->stats().size(), expected()["stats"].size());
  for (const auto& [feature, group] : expected()["stats"].items()) {
    for (const auto& [name, values] : group.items()) {
      SCOPED_TRACE(feature + "." + name);
      at::Tensor found = dataset->stats().at(feature).at(name);
      EXPECT_EQ(found.scalar_type(), at::kFloat);
      if (name == "count") {
        found = found.flatten().to(at::kLong);
      }
      ExpectNumbers(found, values);
    }
  }
}

TEST_P(RecordedDatasetTest, ItemsEqualTheReference) {
  const auto dataset = OpenDataset(GetParam());
  const Batch batch = ReadRows(dataset, Indices(expected()["items"]));
  int64_t at = 0;
  for (const json& item : expected()["items"]) {
    SCOPED_TRACE(item["at"].dump());
    for (const auto& [key, value] : item.items()) {
      if (const at::Tensor* column = batch.Find(key)) {
        ExpectNumbers((*column)[at], value);
      }
    }
    EXPECT_EQ(batch.task[static_cast<size_t>(at)], item["task"]);
    for (const auto& [camera, frame] : item["images"].items()) {
      SCOPED_TRACE(camera);
      ExpectFrame(batch.tensors.at(camera)[at], frame);
    }
    ++at;
  }
}

TEST_P(RecordedDatasetTest, HasTheRecordedKeys) {
  const Batch batch = ReadRows(OpenDataset(GetParam()), {0});
  std::vector<std::string> keys = {"task"};
  for (const auto& [key, tensor] : batch.tensors) {
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, expected()["item_keys"].get<std::vector<std::string>>());
}

TEST_P(RecordedDatasetTest, ActionWindowsEqualTheReference) {
  const json& window = expected()["act_chunk8"];
  const auto dataset = OpenDataset(GetParam(), {.windows = {{"action", window["delta_indices"]}}});
  const Batch batch = ReadRows(dataset, Indices(window["items"]));
  int64_t at = 0;
  for (const json& item : window["items"]) {
    for (const char* key : {"action", "action_is_pad", "observation.state"}) {
      ExpectNumbers(batch.tensors.at(key)[at], item[key]);
    }
    ++at;
  }
}

TEST_P(RecordedDatasetTest, ObservationWindowsEqualTheReference) {
  const json& window = expected()["diffusion_obs2_horizon8"];
  WindowMap windows = {{"action", window["action_delta_indices"]},
                       {"observation.state", window["obs_delta_indices"]}};
  for (const std::string camera : expected()["camera_keys"]) {
    windows[camera] = window["obs_delta_indices"].get<std::vector<int64_t>>();
  }
  const Batch batch =
      ReadRows(OpenDataset(GetParam(), {.windows = windows}), Indices(window["items"]));
  int64_t at = 0;
  for (const json& item : window["items"]) {
    for (const auto& [key, value] : item.items()) {
      if (key != "at" && key != "images") {
        SCOPED_TRACE(key);
        ExpectNumbers(batch.tensors.at(key)[at], value);
      }
    }
    for (const auto& [camera, frames] : item["images"].items()) {
      const at::Tensor found = batch.tensors.at(camera)[at];
      EXPECT_EQ(found.sizes().vec(), frames["shape"].get<std::vector<int64_t>>());
      const at::Tensor means = Levels(found).mean({2, 3});
      for (int64_t i = 0; i < means.numel(); ++i) {
        const json& step = frames["channel_mean_per_step"][static_cast<size_t>(i / 3)];
        EXPECT_NEAR(means.flatten()[i].item<double>(),
                    step[static_cast<size_t>(i % 3)].get<double>(),
                    1e-3);
      }
    }
    ++at;
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded,
                         RecordedDatasetTest,
                         ::testing::Values("dataset_reach",
                                           "dataset_reach_h264",
                                           "dataset_reach_images",
                                           "dataset_pusht"));

TEST(EpisodeSubsetTest, ItemsEqualTheReference) {
  for (const json& subset : Expected()["episode_subsets"]) {
    SCOPED_TRACE(subset["episodes"].dump());
    const auto dataset = OpenDataset(
        "dataset_reach",
        {.episodes = subset["episodes"], .windows = {{"action", {0, 1, 2, 3, 4, 5, 6, 7}}}});
    EXPECT_EQ(dataset->size(), subset["len"]);
    EXPECT_EQ(dataset->num_episodes(), subset["num_episodes"]);
    const Batch batch = ReadRows(dataset, Indices(subset["items"], "relative"));
    int64_t at = 0;
    for (const json& item : subset["items"]) {
      for (const auto& [key, value] : item.items()) {
        if (const at::Tensor* column = batch.Find(key)) {
          ExpectNumbers((*column)[at], value);
        }
      }
      for (const auto& [camera, means] : item["image_channel_mean"].items()) {
        const at::Tensor found = Levels(batch.tensors.at(camera)[at]).mean({1, 2});
        for (int64_t i = 0; i < 3; ++i) {
          EXPECT_NEAR(found[i].item<double>(), means[static_cast<size_t>(i)].get<double>(), 1e-3);
        }
      }
      ++at;
    }
  }
}

/// Whatever the selection, the item of a frame is the same (no mixing of frame and row numbers).
TEST(EpisodeSubsetTest, AnySubsetGivesTheItemsOfTheWhole) {
  const WindowMap windows = {{"action", {-2, 0, 5}}, {"observation.images.top", {-1, 0}}};
  const auto whole = OpenDataset("dataset_reach", {.windows = windows});
  for (unsigned mask = 1; mask < 16; ++mask) {
    DatasetOptions options = {.windows = windows};
    for (int64_t episode = 0; episode < 4; ++episode) {
      if ((mask >> episode & 1U) != 0) {
        options.episodes.push_back(episode);
      }
    }
    const auto part = OpenDataset("dataset_reach", options);
    std::vector<int64_t> rows;
    std::vector<int64_t> frames;
    for (int64_t row = 0; row < part->size(); row += 5) {
      rows.push_back(row);
      frames.push_back(part->ranges().ToFrame(Row{row}).number);
    }
    const Batch found = ReadRows(part, rows);
    const Batch wanted = ReadRows(whole, frames);
    ASSERT_EQ(found.tensors.size(), wanted.tensors.size());
    for (const auto& [key, tensor] : wanted.tensors) {
      EXPECT_TRUE(at::equal(found.tensors.at(key), tensor)) << key << ", episodes " << mask;
    }
    EXPECT_EQ(found.task, wanted.task);
  }
}

TEST(StatisticsTest, ImagenetReplacesMeanAndDeviationOfCamerasOnly) {
  const auto raw = OpenDataset("dataset_reach", {.use_imagenet_stats = false});
  const auto dataset = OpenDataset("dataset_reach");
  const auto& camera = dataset->stats().at("observation.images.top");
  ExpectNumbers(camera.at("mean").flatten(), {0.485, 0.456, 0.406});
  ExpectNumbers(camera.at("std").flatten(), {0.229, 0.224, 0.225});
  EXPECT_EQ(camera.at("mean").sizes().vec(), (std::vector<int64_t>{3, 1, 1}));
  EXPECT_TRUE(at::equal(camera.at("max"), raw->stats().at("observation.images.top").at("max")));
  EXPECT_TRUE(
      at::equal(dataset->stats().at("action").at("mean"), raw->stats().at("action").at("mean")));
}

}  // namespace
}  // namespace lr::worker
