/// Colour conversion: swscale to packed RGB, then apart into planes.
#include "worker/data/rgb_converter.h"

#include <array>

extern "C" {
#include <libavutil/pixdesc.h>
}

namespace lr::worker {

namespace {

/// swscale may write whole vectors beyond a row's end.
constexpr size_t kRowSlack = 64;

/// Takes red, green and blue apart; one pass per colour lets the compiler use vector shuffles.
void Unpack(const uint8_t* packed, size_t pixels, uint8_t* planes) {
  for (size_t channel = 0; channel < 3; ++channel) {
    const uint8_t* in = packed + channel;
    uint8_t* out = planes + channel * pixels;
    for (size_t i = 0; i < pixels; ++i) {
      out[i] = in[3 * i];
    }
  }
}

}  // namespace

Status RgbConverter::Prepare(const Source& source) {
  if (scaler_ && source == source_) {
    return {};
  }
  scaler_.reset(sws_getContext(source.width,
                               source.height,
                               static_cast<AVPixelFormat>(source.format),
                               source.width,
                               source.height,
                               AV_PIX_FMT_RGB24,
                               SWS_BICUBIC,
                               nullptr,
                               nullptr,
                               nullptr));
  if (!scaler_) {
    const char* name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(source.format));
    return Unimplemented("frames of pixel format {} cannot be converted to RGB",
                         name == nullptr ? "unknown" : name);
  }
  // Matrix and range as the stream states them; unspecified is BT.601 in limited range.
  sws_setColorspaceDetails(scaler_.get(),
                           sws_getCoefficients(source.matrix),
                           source.range,
                           sws_getCoefficients(SWS_CS_DEFAULT),
                           1,
                           0,
                           1 << 16,
                           1 << 16);
  packed_.resize(static_cast<size_t>(source.width) * static_cast<size_t>(source.height) * 3 +
                 kRowSlack);
  source_ = source;
  return {};
}

Status RgbConverter::ToPlanes(const AVFrame& frame, uint8_t* planes) {
  const bool is_unspecified = frame.colorspace == AVCOL_SPC_UNSPECIFIED;
  LR_TRY(Prepare({frame.width,
                  frame.height,
                  frame.format,
                  is_unspecified ? SWS_CS_DEFAULT : static_cast<int>(frame.colorspace),
                  frame.color_range == AVCOL_RANGE_JPEG ? 1 : 0}));
  const std::array<uint8_t*, 4> targets = {packed_.data(), nullptr, nullptr, nullptr};
  const std::array<int, 4> strides = {3 * frame.width, 0, 0, 0};
  const int rows = sws_scale(
      scaler_.get(), frame.data, frame.linesize, 0, frame.height, targets.data(), strides.data());
  if (rows != frame.height) {
    return Internal("colour conversion stopped after {} of {} rows", rows, frame.height);
  }
  Unpack(
      packed_.data(), static_cast<size_t>(frame.width) * static_cast<size_t>(frame.height), planes);
  return {};
}

}  // namespace lr::worker
