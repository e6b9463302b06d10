#pragma once
/// Frames out of one video file by presentation time. No LibTorch; FFmpeg stays in the .cc.
///
/// A wanted time is found by seeking to the key frame at or before it and decoding forward to its
/// two neighbours; the nearer one is taken (dataset_and_training_loop.md E.8, second algorithm).
/// When the way from the last delivered frame is no longer than from a key frame, decoding goes on
/// without a seek. One object belongs to one thread and keeps the file open.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

struct PictureSize {
  int64_t height = 0;
  int64_t width = 0;

  int64_t pixels() const { return height * width; }

  bool operator==(const PictureSize&) const = default;
};

class VideoDecoder {
 public:
  /// Opens the file's video stream; errors name file, codec and FFmpeg's reason.
  static Result<std::unique_ptr<VideoDecoder>> Open(const std::filesystem::path& path);
  virtual ~VideoDecoder() = default;

  virtual PictureSize size() const = 0;

  /// Writes the frame nearest to `seconds` as 3 x height x width bytes, red plane first.
  /// kOutOfRange when it is further away than `tolerance_s` (inclusive): names wanted, found and
  /// available times.
  virtual Status ReadRgb(double seconds, double tolerance_s, uint8_t* planes) = 0;

  /// The same for a depth camera: `distances` gives the value of every 12-bit code (DepthByCode);
  /// writes height x width floats. Refuses streams that are not 12-bit grey.
  virtual Status ReadDepth(double seconds,
                           double tolerance_s,
                           const std::vector<float>& distances,
                           float* out) = 0;
};

/// Names of the video codecs that datasets use and these FFmpeg libraries can read, for `--version`
/// and messages: "av1 (libdav1d), h264, hevc".
std::string ReadableVideoCodecs();

}  // namespace lr::worker
