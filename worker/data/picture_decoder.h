#pragma once
/// Single encoded pictures (PNG, JPEG, TIFF) to 8-bit RGB, by FFmpeg. No LibTorch. One object
/// belongs to one thread and keeps its codecs ready between pictures.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "worker/data/video_decoder.h"

namespace lr::worker {

class PictureDecoder {
 public:
  static std::unique_ptr<PictureDecoder> Create();
  virtual ~PictureDecoder() = default;

  /// Decodes one picture into `planes` (3 x height x width, red plane first) and returns its size.
  /// Damaged bytes are kDataLoss, other formats kInvalidArgument.
  virtual Result<PictureSize> Decode(std::string_view bytes, std::vector<uint8_t>& planes) = 0;
};

}  // namespace lr::worker
