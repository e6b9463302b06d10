#pragma once
/// Open videos, the least recently used of them closed first: bounds memory and file handles per
/// thread (LEROBOT_VIDEO_DECODER_CACHE_SIZE). One object belongs to one thread.

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/base/status.h"
#include "worker/data/video_decoder.h"

namespace lr::worker {

class DecoderCache {
 public:
  /// `limit` files at a time; 0 is no limit.
  explicit DecoderCache(int64_t limit) : limit_(limit) {}

  /// The decoder of that file, opened when it is not at hand; valid until the next call.
  Result<VideoDecoder*> Get(const std::string& path);

  int64_t size() const { return static_cast<int64_t>(open_.size()); }

 private:
  struct Entry {
    std::string path;
    std::unique_ptr<VideoDecoder> decoder;
  };

  int64_t limit_;
  std::list<Entry> open_;  ///< most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_path_;
};

/// LEROBOT_VIDEO_DECODER_CACHE_SIZE: a count, 100 when unset; "none", "" or -1 mean no limit (0);
/// other values below 1 are an error.
Result<int64_t> DecoderCacheSizeFromEnvironment();

}  // namespace lr::worker
