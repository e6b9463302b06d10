#pragma once
/// Decoded frames to 8-bit RGB planes, with swscale's default flags: the result the reference
/// decoders give, bit for bit on the recorded datasets. One object belongs to one thread.

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "worker/data/ffmpeg_handles.h"

namespace lr::worker {

class RgbConverter {
 public:
  /// Writes 3 x height x width bytes of `frame` to `planes`: first all red, then green, then blue.
  /// The swscale context is kept while size, format and colours of the frames stay.
  Status ToPlanes(const AVFrame& frame, uint8_t* planes);

 private:
  /// What a swscale context is made for.
  struct Source {
    int width = 0;
    int height = 0;
    int format = -1;
    int matrix = 0;
    int range = 0;

    bool operator==(const Source&) const = default;
  };

  Status Prepare(const Source& source);

  Source source_;
  ffmpeg::Owned<SwsContext> scaler_;
  std::vector<uint8_t> packed_;
};

}  // namespace lr::worker
