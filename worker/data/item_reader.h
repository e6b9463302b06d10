#pragma once
/// Builds batches of dataset items: columns, windows with padding masks, decoded cameras, task
/// texts.
///
/// One preallocated tensor per key; every sample is written straight into its place, video frames
/// included. Holds open decoders, so it belongs to one thread at a time.

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/data/batch.h"
#include "worker/data/frame_index.h"

namespace lr::worker {

class LeRobotDataset;

class ItemReader {
 public:
  /// `decoder_cache_size`: open video files kept at a time, 0 for no limit
  /// (decoder_cache.h).
  ItemReader(std::shared_ptr<const LeRobotDataset> dataset, int64_t decoder_cache_size);
  ~ItemReader();
  ItemReader(ItemReader&&) noexcept;

  /// The items at `rows`, stacked. `pin_memory` places the tensors in page-locked memory for copies
  /// to a GPU. An error names row, episode, frame and camera.
  Result<Batch> ReadBatch(const std::vector<Row>& rows, bool pin_memory = false);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lr::worker
