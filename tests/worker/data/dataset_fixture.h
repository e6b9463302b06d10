#pragma once
/// Opens the recorded datasets of tests/data and compares items with what the reference reads.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "worker/data/item_reader.h"
#include "worker/data/lerobot_dataset.h"

namespace lr::worker::testing {

using lr::testing::IsOk;

inline std::filesystem::path DatasetFolder(const std::string& name) {
  return std::filesystem::path(LR_TEST_DATA) / name;
}

/// The dataset in `root`; all episodes when none are named. Fails the test when it cannot be read.
inline std::shared_ptr<const LeRobotDataset> OpenDatasetIn(const std::filesystem::path& root,
                                                           DatasetOptions options = {}) {
  auto metadata = DatasetMetadata::Open(root, "test/" + root.filename().string());
  EXPECT_THAT(metadata, IsOk());
  if (!metadata.ok()) {
    return nullptr;
  }
  if (options.episodes.empty()) {
    for (const EpisodeRecord& record : (*metadata)->episodes()) {
      options.episodes.push_back(record.episode);
    }
  }
  auto dataset = LeRobotDataset::Open(*metadata, options);
  EXPECT_THAT(dataset, IsOk());
  return dataset.ok() ? *dataset : nullptr;
}

/// A recorded dataset by the name of its folder.
inline std::shared_ptr<const LeRobotDataset> OpenDataset(const std::string& name,
                                                         DatasetOptions options = {}) {
  return OpenDatasetIn(DatasetFolder(name), std::move(options));
}

/// The batch of these rows, read by a reader of its own.
inline Batch ReadRows(const std::shared_ptr<const LeRobotDataset>& dataset,
                      const std::vector<int64_t>& positions) {
  std::vector<Row> rows;
  for (const int64_t position : positions) {
    rows.push_back(Row{position});
  }
  auto batch = ItemReader(dataset, 0).ReadBatch(rows);
  EXPECT_THAT(batch, IsOk());
  return batch.ok() ? std::move(batch).value() : Batch();
}

/// Every number of `tensor` equals the (nested) list `expected`, after the same rounding to
/// float32.
inline void ExpectNumbers(const at::Tensor& tensor, const nlohmann::json& expected) {
  if (expected.is_array()) {
    ASSERT_GT(tensor.dim(), 0);
    ASSERT_EQ(tensor.size(0), static_cast<int64_t>(expected.size()));
    for (int64_t i = 0; i < tensor.size(0); ++i) {
      ExpectNumbers(tensor[i], expected[static_cast<size_t>(i)]);
    }
    return;
  }
  ASSERT_EQ(tensor.numel(), 1);
  if (expected.is_boolean()) {
    EXPECT_EQ(tensor.item<bool>(), expected.get<bool>());
  } else if (tensor.is_floating_point()) {
    EXPECT_EQ(tensor.item<float>(), static_cast<float>(expected.get<double>()));
  } else {
    EXPECT_EQ(tensor.item<int64_t>(), expected.get<int64_t>());
  }
}

/// A camera frame [3, H, W] on the scale 0…255.
inline at::Tensor Levels(const at::Tensor& frame) {
  const at::Tensor levels = frame.to(at::kDouble);
  return frame.scalar_type() == at::kByte ? levels : levels * 255.0;
}

}  // namespace lr::worker::testing
