#pragma once
/// Frames out of video files and encoded pictures by FFmpeg: the border to its C API. No LibTorch.
///
/// A frame is found by presentation time alone: seek to the key frame at or before it, decode
/// forward, take the nearest. When the wanted frame lies shortly after the last one, decoding goes
/// on without a seek. Colours: swscale with its default flags, as the reference decoders do (exact
/// on the fixtures). One object belongs to one thread.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

struct PictureSize {
  int height = 0;
  int width = 0;

  bool operator==(const PictureSize&) const = default;
};

class VideoDecoder {
 public:
  /// Opens the file's first video stream; errors name file, codec and FFmpeg's reason.
  static Result<std::unique_ptr<VideoDecoder>> Open(const std::filesystem::path& path);
  ~VideoDecoder();
  VideoDecoder(const VideoDecoder&) = delete;
  VideoDecoder& operator=(const VideoDecoder&) = delete;

  PictureSize size() const;

  /// Decodes the frames nearest to `seconds` (ascending) as planes: out[i] receives 3 x height x
  /// width bytes. Fails when the nearest is further away than `tolerance_s`.
  Status Decode(const std::vector<double>& seconds,
                double tolerance_s,
                const std::vector<uint8_t*>& out);

 private:
  class Impl;
  explicit VideoDecoder(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

/// A picture as packed RGB bytes.
struct Picture {
  PictureSize size;
  std::vector<uint8_t> rgb;  ///< height x width x 3
};

/// Decodes one PNG, JPEG or TIFF.
Result<Picture> DecodePicture(std::string_view bytes);

}  // namespace lr::worker
