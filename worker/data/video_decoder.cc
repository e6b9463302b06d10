#include "worker/data/video_decoder.h"

#include <array>
#include <cmath>
#include <limits>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

namespace lr::worker {

namespace {

struct FormatDeleter {
  void operator()(AVFormatContext* context) const { avformat_close_input(&context); }
};

struct CodecDeleter {
  void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }
};

struct FrameDeleter {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};

struct PacketDeleter {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};

struct ScalerDeleter {
  void operator()(SwsContext* context) const { sws_freeContext(context); }
};

using FramePtr = std::unique_ptr<AVFrame, FrameDeleter>;
using PacketPtr = std::unique_ptr<AVPacket, PacketDeleter>;
using CodecPtr = std::unique_ptr<AVCodecContext, CodecDeleter>;
using ScalerPtr = std::unique_ptr<SwsContext, ScalerDeleter>;

std::string Reason(int error) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(error, text.data(), text.size());
  return text.data();
}

/// Converts frames of one format and size to packed RGB; the context is kept as long as they stay.
class RgbConverter {
 public:
  /// `rgb` receives height x width x 3 bytes.
  Status Convert(const AVFrame& frame, std::vector<uint8_t>& rgb) {
    if (!scaler_ || frame.width != width_ || frame.height != height_ || frame.format != format_) {
      width_ = frame.width;
      height_ = frame.height;
      format_ = frame.format;
      scaler_.reset(sws_getContext(width_,
                                   height_,
                                   static_cast<AVPixelFormat>(format_),
                                   width_,
                                   height_,
                                   AV_PIX_FMT_RGB24,
                                   SWS_BICUBIC,
                                   nullptr,
                                   nullptr,
                                   nullptr));
      if (!scaler_) {
        return Unimplemented("pixel format {} cannot be converted to RGB", format_);
      }
      // Matrix and range as the stream states them; unspecified means BT.601, limited.
      const int matrix =
          frame.colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : frame.colorspace;
      const int full_range = frame.color_range == AVCOL_RANGE_JPEG ? 1 : 0;
      sws_setColorspaceDetails(scaler_.get(),
                               sws_getCoefficients(matrix),
                               full_range,
                               sws_getCoefficients(SWS_CS_DEFAULT),
                               1,
                               0,
                               1 << 16,
                               1 << 16);
    }
    const int stride = 3 * width_;
    rgb.resize(static_cast<size_t>(stride) * static_cast<size_t>(height_));
    std::array<uint8_t*, 4> planes = {rgb.data(), nullptr, nullptr, nullptr};
    std::array<int, 4> strides = {stride, 0, 0, 0};
    sws_scale(scaler_.get(), frame.data, frame.linesize, 0, height_, planes.data(), strides.data());
    return {};
  }

 private:
  ScalerPtr scaler_;
  int width_ = 0;
  int height_ = 0;
  int format_ = -1;
};

void ToPlanes(const std::vector<uint8_t>& rgb, uint8_t* out) {
  const size_t pixels = rgb.size() / 3;
  uint8_t* red = out;
  uint8_t* green = out + pixels;
  uint8_t* blue = out + 2 * pixels;
  const uint8_t* in = rgb.data();
  for (size_t i = 0; i < pixels; ++i) {
    red[i] = in[3 * i];
    green[i] = in[3 * i + 1];
    blue[i] = in[3 * i + 2];
  }
}

Result<CodecPtr> OpenCodec(AVCodecID id, const AVCodecParameters* parameters) {
  const AVCodec* codec = avcodec_find_decoder(id);
  if (codec == nullptr) {
    return Unimplemented("no decoder for {}: install FFmpeg libraries that have one",
                         avcodec_get_name(id));
  }
  CodecPtr context(avcodec_alloc_context3(codec));
  if (parameters != nullptr && avcodec_parameters_to_context(context.get(), parameters) < 0) {
    return DataLoss("the {} stream is damaged", avcodec_get_name(id));
  }
  context->thread_count = 1;  // loader threads are the parallelism
  if (const int error = avcodec_open2(context.get(), codec, nullptr); error < 0) {
    return DataLoss("{}: {}", avcodec_get_name(id), Reason(error));
  }
  return context;
}

}  // namespace

class VideoDecoder::Impl {
 public:
  Status Open(const std::filesystem::path& path) {
    path_ = path.string();
    AVFormatContext* format = nullptr;
    if (const int error = avformat_open_input(&format, path_.c_str(), nullptr, nullptr);
        error < 0) {
      return DataLoss("'{}': {}", path_, Reason(error));
    }
    format_.reset(format);
    if (const int error = avformat_find_stream_info(format, nullptr); error < 0) {
      return DataLoss("'{}': {}", path_, Reason(error));
    }
    stream_ = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    if (stream_ < 0) {
      return DataLoss("'{}': no video stream", path_);
    }
    for (unsigned i = 0; i < format->nb_streams; ++i) {
      format->streams[i]->discard =
          static_cast<int>(i) == stream_ ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
    }
    const AVCodecParameters* parameters = format->streams[stream_]->codecpar;
    LR_ASSIGN(codec_, OpenCodec(parameters->codec_id, parameters).WithContext("'{}'", path_));
    time_base_ = av_q2d(format->streams[stream_]->time_base);
    half_tick_ = time_base_ / 2;
    packet_.reset(av_packet_alloc());
    frame_.reset(av_frame_alloc());
    previous_.reset(av_frame_alloc());
    return {};
  }

  PictureSize size() const { return {codec_->height, codec_->width}; }

  Status Decode(double seconds, double tolerance_s, uint8_t* out) {
    LR_TRY(MoveTo(seconds));
    // Two neighbours: the last frame before the wanted time and the first at or after it.
    while (!ended_ && now_ < seconds - half_tick_) {
      av_frame_unref(previous_.get());
      av_frame_move_ref(previous_.get(), frame_.get());
      before_ = now_;
      LR_TRY(Next());
    }
    const bool take_previous = ended_ || seconds - before_ < now_ - seconds;
    const double found = take_previous ? before_ : now_;
    if (!std::isfinite(found)) {
      return DataLoss("'{}': not one frame could be decoded", path_);
    }
    if (std::abs(found - seconds) > tolerance_s) {
      return OutOfRange(
          "'{}': no frame at {:.6f} s; the nearest is at {:.6f} s (tolerance {} s), the stream "
          "lasts "
          "{:.6f} s. If all queries are off by a constant ratio, fps in info.json and the video "
          "disagree",
          path_,
          seconds,
          found,
          tolerance_s,
          Duration());
    }
    LR_TRY(
        converter_.Convert(take_previous ? *previous_ : *frame_, rgb_).WithContext("'{}'", path_));
    ToPlanes(rgb_, out);
    return {};
  }

 private:
  double Duration() const {
    const int64_t ticks = format_->streams[stream_]->duration;
    return ticks == AV_NOPTS_VALUE ? 0.0 : static_cast<double>(ticks) * time_base_;
  }

  /// Seeks unless the wanted time lies between the frames at hand, or ahead with no key frame
  /// before it that would be a shorter way.
  Status MoveTo(double seconds) {
    const bool is_present = started_ && before_ <= seconds && seconds <= now_ + half_tick_ &&
                            (std::isfinite(before_) || seconds >= now_ - half_tick_);
    if (is_present) {
      return {};
    }
    const int64_t target = std::llround(seconds / time_base_);
    const bool is_ahead = started_ && !ended_ && seconds > now_;
    if (is_ahead && KeyFrameBefore(target) <= last_fed_) {
      return {};
    }
    return Seek(seconds, target);
  }

  /// Decoding position of the key frame to start from, by the file's index; its lowest value when
  /// there is none.
  int64_t KeyFrameBefore(int64_t target) const {
    const AVIndexEntry* entry = avformat_index_get_entry_from_timestamp(
        format_->streams[stream_], target, AVSEEK_FLAG_BACKWARD);
    return entry == nullptr ? std::numeric_limits<int64_t>::min() : entry->timestamp;
  }

  /// To a key frame whose frame is shown at or before `seconds`. Indexes count in decoding order,
  /// which may be earlier than the showing: then one goes further back.
  Status Seek(double seconds, int64_t target) {
    auto step = static_cast<int64_t>(1.0 / time_base_);
    for (int attempt = 0; attempt < 8; ++attempt, target -= step, step *= 4) {
      if (const int error = av_seek_frame(format_.get(), stream_, target, AVSEEK_FLAG_BACKWARD);
          error < 0) {
        return DataLoss("'{}': cannot seek to {:.6f} s: {}", path_, seconds, Reason(error));
      }
      avcodec_flush_buffers(codec_.get());
      draining_ = ended_ = false;
      started_ = true;
      before_ = -std::numeric_limits<double>::infinity();
      last_fed_ = std::numeric_limits<int64_t>::min();
      av_frame_unref(previous_.get());
      LR_TRY(Next());
      if (now_ <= seconds + half_tick_ || target <= 0) {
        break;
      }
    }
    return {};
  }

  /// The next frame in presentation order into frame_; ended_ after the last.
  Status Next() {
    while (true) {
      av_frame_unref(frame_.get());
      const int received = avcodec_receive_frame(codec_.get(), frame_.get());
      if (received == 0) {
        now_ = static_cast<double>(frame_->best_effort_timestamp) * time_base_;
        return {};
      }
      if (received == AVERROR_EOF) {
        ended_ = true;
        now_ = std::numeric_limits<double>::infinity();
        return {};
      }
      if (received != AVERROR(EAGAIN)) {
        return DataLoss("'{}': {}", path_, Reason(received));
      }
      LR_TRY(Feed());
    }
  }

  Status Feed() {
    if (draining_) {
      return DataLoss("'{}': the decoder asks for more after the end", path_);
    }
    const int read = av_read_frame(format_.get(), packet_.get());
    if (read == AVERROR_EOF) {
      draining_ = true;
      avcodec_send_packet(codec_.get(), nullptr);
      return {};
    }
    if (read < 0) {
      return DataLoss("'{}': {}", path_, Reason(read));
    }
    int sent = 0;
    if (packet_->stream_index == stream_) {
      last_fed_ = packet_->dts == AV_NOPTS_VALUE ? packet_->pts : packet_->dts;
      sent = avcodec_send_packet(codec_.get(), packet_.get());
    }
    av_packet_unref(packet_.get());
    return sent < 0 ? DataLoss("'{}': {}", path_, Reason(sent)) : Status();
  }

  std::string path_;
  std::unique_ptr<AVFormatContext, FormatDeleter> format_;
  CodecPtr codec_;
  PacketPtr packet_;
  FramePtr frame_;
  FramePtr previous_;
  RgbConverter converter_;
  std::vector<uint8_t> rgb_;
  int stream_ = -1;
  double time_base_ = 0.0;
  double half_tick_ = 0.0;  ///< times closer than this are the same
  int64_t last_fed_ = 0;    ///< decoding time of the last packet since the seek
  double now_ = 0.0;        ///< presentation time of frame_
  double before_ = 0.0;     ///< of previous_
  bool started_ = false;
  bool draining_ = false;
  bool ended_ = false;
};

VideoDecoder::VideoDecoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

VideoDecoder::~VideoDecoder() = default;

Result<std::unique_ptr<VideoDecoder>> VideoDecoder::Open(const std::filesystem::path& path) {
  av_log_set_level(AV_LOG_FATAL);  // errors come back as a Status
  auto impl = std::make_unique<Impl>();
  LR_TRY(impl->Open(path));
  return std::unique_ptr<VideoDecoder>(new VideoDecoder(std::move(impl)));
}

PictureSize VideoDecoder::size() const {
  return impl_->size();
}

Status VideoDecoder::Decode(const std::vector<double>& seconds,
                            double tolerance_s,
                            const std::vector<uint8_t*>& out) {
  for (size_t i = 0; i < seconds.size(); ++i) {
    LR_TRY(impl_->Decode(seconds[i], tolerance_s, out[i]));
  }
  return {};
}

Result<Picture> DecodePicture(std::string_view bytes) {
  const auto starts = [&](std::string_view mark) { return bytes.starts_with(mark); };
  AVCodecID id = AV_CODEC_ID_NONE;
  if (starts("\x89PNG")) {
    id = AV_CODEC_ID_PNG;
  } else if (starts("\xff\xd8")) {
    id = AV_CODEC_ID_MJPEG;
  } else if (starts("II*") || starts("MM")) {
    id = AV_CODEC_ID_TIFF;
  } else {
    return InvalidArgument("{} bytes that are neither PNG, JPEG nor TIFF", bytes.size());
  }
  av_log_set_level(AV_LOG_FATAL);
  LR_ASSIGN(const CodecPtr codec, OpenCodec(id, nullptr));
  const PacketPtr packet(av_packet_alloc());
  if (av_new_packet(packet.get(), static_cast<int>(bytes.size())) < 0) {
    return ResourceExhausted("no memory for a picture of {} bytes", bytes.size());
  }
  std::copy(bytes.begin(), bytes.end(), packet->data);
  const FramePtr frame(av_frame_alloc());
  int error = avcodec_send_packet(codec.get(), packet.get());
  if (error == 0) {
    avcodec_send_packet(codec.get(), nullptr);
    error = avcodec_receive_frame(codec.get(), frame.get());
  }
  if (error < 0) {
    return DataLoss("a damaged {} picture: {}", avcodec_get_name(id), Reason(error));
  }
  Picture picture;
  picture.size = {frame->height, frame->width};
  RgbConverter converter;
  LR_TRY(converter.Convert(*frame, picture.rgb));
  return picture;
}

}  // namespace lr::worker
