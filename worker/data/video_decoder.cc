/// Seeking and decoding of one file with FFmpeg.
#include "worker/data/video_decoder.h"

#include <array>
#include <cmath>
#include <limits>

extern "C" {
#include <libavutil/pixdesc.h>
}

#include "common/base/text.h"
#include "worker/data/ffmpeg_handles.h"
#include "worker/data/rgb_converter.h"

namespace lr::worker {

namespace {

using ffmpeg::Owned;
using ffmpeg::Reason;

constexpr double kBeforeAll = -std::numeric_limits<double>::infinity();
constexpr double kAfterAll = std::numeric_limits<double>::infinity();
constexpr int64_t kNoPacket = std::numeric_limits<int64_t>::min();
constexpr int kSeekAttempts = 8;
constexpr int kMostPixels = 1 << 28;  // refuses sizes that only a damaged header has

class FileDecoder final : public VideoDecoder {
 public:
  Status Start(const std::filesystem::path& path);

  PictureSize size() const override { return size_; }

  Status ReadRgb(double seconds, double tolerance_s, uint8_t* planes) override {
    LR_ASSIGN(const AVFrame* frame, Find(seconds, tolerance_s));
    return converter_.ToPlanes(*frame, planes).WithContext("'{}'", path_);
  }

  Status ReadDepth(double seconds,
                   double tolerance_s,
                   const std::vector<float>& distances,
                   float* out) override;

 private:
  Result<const AVFrame*> Find(double seconds, double tolerance_s);
  Result<const AVFrame*> Nearest(double seconds, double tolerance_s) const;
  Status Advance(double seconds);
  Status MoveTo(double seconds);
  bool ContinuesTo(double seconds, int64_t target) const;
  Status Seek(double seconds, int64_t target);
  Status NextFrame();
  Status Feed();
  std::string Span() const;

  AVStream* stream() const { return format_->streams[stream_number_]; }

  std::string path_;
  Owned<AVFormatContext> format_;
  Owned<AVCodecContext> codec_;
  Owned<AVPacket> packet_;
  Owned<AVFrame> frame_;     ///< shown at now_
  Owned<AVFrame> previous_;  ///< the frame before it, shown at before_
  RgbConverter converter_;
  PictureSize size_;
  int stream_number_ = -1;
  double time_base_ = 0.0;
  double half_tick_ = 0.0;  ///< times closer than this are the same
  double now_ = kBeforeAll;
  double before_ = kBeforeAll;
  int64_t last_fed_ = kNoPacket;  ///< decoding time of the last packet since the seek
  bool is_positioned_ = false;
  bool is_draining_ = false;
};

Status FileDecoder::Start(const std::filesystem::path& path) {
  path_ = path.string();
  AVFormatContext* format = nullptr;
  if (const int error = avformat_open_input(&format, path_.c_str(), nullptr, nullptr); error < 0) {
    return (error == AVERROR(ENOENT) ? NotFound("'{}': {}", path_, Reason(error))
                                     : DataLoss("'{}': {}", path_, Reason(error)));
  }
  format_.reset(format);
  if (const int error = avformat_find_stream_info(format, nullptr); error < 0) {
    return DataLoss("'{}': {}", path_, Reason(error));
  }
  stream_number_ = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (stream_number_ < 0) {
    return DataLoss("'{}': it holds no video stream", path_);
  }
  for (unsigned i = 0; i < format->nb_streams; ++i) {
    const bool is_ours = static_cast<int>(i) == stream_number_;
    format->streams[i]->discard = is_ours ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
  }
  LR_ASSIGN(codec_,
            ffmpeg::OpenDecoder(stream()->codecpar->codec_id, stream()->codecpar)
                .WithContext("'{}'", path_));
  size_ = {stream()->codecpar->height, stream()->codecpar->width};
  if (size_.height <= 0 || size_.width <= 0 || size_.pixels() > kMostPixels) {
    return DataLoss("'{}': its {} stream claims {}x{} pixels",
                    path_,
                    avcodec_get_name(codec_->codec_id),
                    size_.width,
                    size_.height);
  }
  time_base_ = av_q2d(stream()->time_base);
  half_tick_ = time_base_ / 2;
  packet_.reset(av_packet_alloc());
  frame_.reset(av_frame_alloc());
  previous_.reset(av_frame_alloc());
  if (!packet_ || !frame_ || !previous_ || !(time_base_ > 0.0)) {
    return Internal("'{}': the decoder cannot be set up", path_);
  }
  return {};
}

Status FileDecoder::ReadDepth(double seconds,
                              double tolerance_s,
                              const std::vector<float>& distances,
                              float* out) {
  LR_ASSIGN(const AVFrame* frame, Find(seconds, tolerance_s));
  const auto format = static_cast<AVPixelFormat>(frame->format);
  if (format != AV_PIX_FMT_GRAY12LE && format != AV_PIX_FMT_YUV420P12LE) {
    const char* name = av_get_pix_fmt_name(format);
    return InvalidArgument("'{}': depth is stored as 12-bit grey (gray12le), these frames are {}",
                           path_,
                           name == nullptr ? "unknown" : name);
  }
  for (int row = 0; row < frame->height; ++row) {
    const auto* codes =
        reinterpret_cast<const uint16_t*>(frame->data[0] + row * frame->linesize[0]);
    for (int column = 0; column < frame->width; ++column) {
      *out++ = distances[codes[column] % distances.size()];
    }
  }
  return {};
}

/// The frame to deliver; after an error the next call starts with a seek.
Result<const AVFrame*> FileDecoder::Find(double seconds, double tolerance_s) {
  if (const Status status = Advance(seconds); !status.ok()) {
    is_positioned_ = false;
    return status;
  }
  return Nearest(seconds, tolerance_s);
}

/// Brings the two neighbours of `seconds` into previous_ and frame_.
Status FileDecoder::Advance(double seconds) {
  LR_TRY(MoveTo(seconds));
  while (now_ < seconds - half_tick_) {
    av_frame_unref(previous_.get());
    av_frame_move_ref(previous_.get(), frame_.get());
    before_ = now_;
    LR_TRY(NextFrame());
  }
  return {};
}

Result<const AVFrame*> FileDecoder::Nearest(double seconds, double tolerance_s) const {
  const bool is_before = seconds - before_ < now_ - seconds;
  const double found = is_before ? before_ : now_;
  if (!std::isfinite(found)) {
    return DataLoss(
        "'{}': not one {} frame could be decoded", path_, avcodec_get_name(codec_->codec_id));
  }
  // Half a tick more: times and ticks are compared in floating point.
  if (std::abs(found - seconds) > tolerance_s + half_tick_ * 1e-6) {
    return OutOfRange(
        "'{}': no frame at {:.6f} s: the nearest one is at {:.6f} s, {:.6f} s away "
        "(tolerance_s={}); {}. If the ratio "
        "of wanted to found times is the same everywhere, fps in meta/info.json and the video "
        "disagree",
        path_,
        seconds,
        found,
        std::abs(found - seconds),
        tolerance_s,
        Span());
  }
  const AVFrame* frame = is_before ? previous_.get() : frame_.get();
  if (frame->width != size_.width || frame->height != size_.height) {
    return DataLoss("'{}': the frame at {:.6f} s has {}x{} pixels, the stream says {}x{}",
                    path_,
                    found,
                    frame->width,
                    frame->height,
                    size_.width,
                    size_.height);
  }
  return frame;
}

std::string FileDecoder::Span() const {
  if (stream()->duration == AV_NOPTS_VALUE) {
    return "the stream does not state its length";
  }
  const int64_t start = stream()->start_time == AV_NOPTS_VALUE ? 0 : stream()->start_time;
  return fmt::format("the stream covers {:.6f} s to {:.6f} s",
                     static_cast<double>(start) * time_base_,
                     static_cast<double>(start + stream()->duration) * time_base_);
}

/// Seeks unless the wanted time lies between the frames at hand, or ahead on a way no longer than
/// from a key frame.
Status FileDecoder::MoveTo(double seconds) {
  const bool is_at_hand =
      is_positioned_ && seconds <= now_ + half_tick_ &&
      (std::isfinite(before_) ? before_ <= seconds : seconds >= now_ - half_tick_);
  const int64_t target = std::llround(seconds / time_base_);
  if (is_at_hand || ContinuesTo(seconds, target)) {
    return {};
  }
  return Seek(seconds, target);
}

/// Whether going on from here passes no key frame that a seek would start from, the next packet
/// aside.
bool FileDecoder::ContinuesTo(double seconds, int64_t target) const {
  if (!is_positioned_ || seconds <= now_) {
    return false;
  }
  const int key = av_index_search_timestamp(stream(), target, AVSEEK_FLAG_BACKWARD);
  const int fed =
      av_index_search_timestamp(stream(), last_fed_, AVSEEK_FLAG_BACKWARD | AVSEEK_FLAG_ANY);
  return key >= 0 && fed >= 0 && key <= fed + 1;
}

/// To a key frame that is shown at or before `seconds`. Files are indexed in decoding order, which
/// may run ahead of the showing: then one goes further back.
Status FileDecoder::Seek(double seconds, int64_t target) {
  auto step = std::max<int64_t>(1, std::llround(1.0 / time_base_));
  for (int attempt = 0; attempt < kSeekAttempts; ++attempt, target -= step, step *= 4) {
    if (const int error =
            av_seek_frame(format_.get(), stream_number_, target, AVSEEK_FLAG_BACKWARD);
        error < 0) {
      return DataLoss("'{}': cannot seek to {:.6f} s: {}", path_, seconds, Reason(error));
    }
    avcodec_flush_buffers(codec_.get());
    av_frame_unref(previous_.get());
    before_ = kBeforeAll;
    last_fed_ = kNoPacket;
    is_draining_ = false;
    is_positioned_ = true;
    LR_TRY(NextFrame());
    if (now_ <= seconds + half_tick_ || target <= 0) {
      break;
    }
  }
  return {};
}

/// The next frame in presentation order into frame_; after the last, now_ lies behind everything.
Status FileDecoder::NextFrame() {
  while (true) {
    av_frame_unref(frame_.get());
    const int received = avcodec_receive_frame(codec_.get(), frame_.get());
    if (received == 0) {
      now_ = static_cast<double>(frame_->best_effort_timestamp) * time_base_;
      return {};
    }
    if (received == AVERROR_EOF) {
      now_ = kAfterAll;
      return {};
    }
    if (received != AVERROR(EAGAIN) || is_draining_) {
      return DataLoss(
          "'{}': decoding {}: {}", path_, avcodec_get_name(codec_->codec_id), Reason(received));
    }
    LR_TRY(Feed());
  }
}

Status FileDecoder::Feed() {
  int error = av_read_frame(format_.get(), packet_.get());
  if (error == AVERROR_EOF) {
    is_draining_ = true;
    error = avcodec_send_packet(codec_.get(), nullptr);
  } else if (error == 0 && packet_->stream_index == stream_number_) {
    last_fed_ = packet_->dts == AV_NOPTS_VALUE ? packet_->pts : packet_->dts;
    error = avcodec_send_packet(codec_.get(), packet_.get());
  }
  av_packet_unref(packet_.get());
  if (error < 0) {
    return DataLoss(
        "'{}': decoding {}: {}", path_, avcodec_get_name(codec_->codec_id), Reason(error));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<VideoDecoder>> VideoDecoder::Open(const std::filesystem::path& path) {
  ffmpeg::Silence();
  auto decoder = std::make_unique<FileDecoder>();
  LR_TRY(decoder->Start(path));
  return std::unique_ptr<VideoDecoder>(std::move(decoder));
}

std::string ReadableVideoCodecs() {
  std::vector<std::string> names;
  for (const AVCodecID id : {AV_CODEC_ID_AV1, AV_CODEC_ID_H264, AV_CODEC_ID_HEVC}) {
    if (const AVCodec* codec = avcodec_find_decoder(id)) {
      const std::string name = avcodec_get_name(id);
      names.push_back(name == codec->name ? name : fmt::format("{} ({})", name, codec->name));
    }
  }
  return Join(names, ", ");
}

}  // namespace lr::worker
