/// The list of open videos and its limit.
#include "worker/data/decoder_cache.h"

#include <cstdlib>
#include <optional>

#include "common/base/text.h"

namespace lr::worker {

namespace {

constexpr const char* kVariable = "LEROBOT_VIDEO_DECODER_CACHE_SIZE";
constexpr int64_t kDefaultLimit = 100;

}  // namespace

Result<VideoDecoder*> DecoderCache::Get(const std::string& path) {
  if (const auto known = by_path_.find(path); known != by_path_.end()) {
    open_.splice(open_.begin(), open_, known->second);
    return open_.front().decoder.get();
  }
  if (limit_ > 0 &&
      size() >= limit_) {  // closed before the new one opens: never more than the limit
    by_path_.erase(open_.back().path);
    open_.pop_back();
  }
  LR_ASSIGN(std::unique_ptr<VideoDecoder> decoder, VideoDecoder::Open(path));
  open_.push_front({path, std::move(decoder)});
  by_path_[path] = open_.begin();
  return open_.front().decoder.get();
}

Result<int64_t> DecoderCacheSizeFromEnvironment() {
  const char* text =
      std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): nobody sets variables at run time
  if (text == nullptr) {
    return kDefaultLimit;
  }
  const std::string value = text;
  if (value.empty() || value == "none" || value == "None" || value == "-1") {
    return 0;
  }
  const std::optional<int64_t> count = ParseInt(value);
  if (!count || *count < 1) {
    return InvalidArgument(
        "{}={}: expected a count of at least 1, or none for no limit", kVariable, value);
  }
  return *count;
}

}  // namespace lr::worker
