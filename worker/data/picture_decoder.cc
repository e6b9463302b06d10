/// Picture decoding at the FFmpeg border.
#include "worker/data/picture_decoder.h"

#include <algorithm>
#include <map>

#include "worker/data/ffmpeg_handles.h"
#include "worker/data/rgb_converter.h"

namespace lr::worker {

namespace {

using ffmpeg::Owned;

constexpr size_t kMostBytes = size_t{256} << 20;

Result<AVCodecID> CodecOf(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG")) {
    return AV_CODEC_ID_PNG;
  }
  if (bytes.starts_with("\xff\xd8")) {
    return AV_CODEC_ID_MJPEG;
  }
  if (bytes.starts_with(std::string_view("II*\0", 4)) ||
      bytes.starts_with(std::string_view("MM\0*", 4))) {
    return AV_CODEC_ID_TIFF;
  }
  return InvalidArgument("{} bytes that are neither PNG, JPEG nor TIFF", bytes.size());
}

class FfmpegPictureDecoder final : public PictureDecoder {
 public:
  FfmpegPictureDecoder() : packet_(av_packet_alloc()), frame_(av_frame_alloc()) {}

  Result<PictureSize> Decode(std::string_view bytes, std::vector<uint8_t>& planes) override {
    LR_ASSIGN(const AVCodecID id, CodecOf(bytes));
    if (bytes.size() > kMostBytes) {
      return ResourceExhausted("a picture of {} bytes (limit {})", bytes.size(), kMostBytes);
    }
    if (!codecs_[id]) {
      LR_ASSIGN(codecs_[id], ffmpeg::OpenDecoder(id, nullptr));
    }
    if (const int error = Run(*codecs_[id], bytes); error < 0) {
      codecs_.erase(id);  // in an unknown state
      return DataLoss("a damaged {} picture of {} bytes: {}",
                      avcodec_get_name(id),
                      bytes.size(),
                      ffmpeg::Reason(error));
    }
    const PictureSize size = {frame_->height, frame_->width};
    planes.resize(static_cast<size_t>(3 * size.pixels()));
    LR_TRY(converter_.ToPlanes(*frame_, planes.data()));
    return size;
  }

 private:
  /// FFmpeg's error number, 0 with the picture in frame_.
  int Run(AVCodecContext& codec, std::string_view bytes) {
    av_packet_unref(packet_.get());
    if (const int error = av_new_packet(packet_.get(), static_cast<int>(bytes.size())); error < 0) {
      return error;
    }
    std::copy(bytes.begin(), bytes.end(), packet_->data);
    packet_->flags |= AV_PKT_FLAG_KEY;  // else the PNG decoder adds the picture before
    if (const int error = avcodec_send_packet(&codec, packet_.get()); error < 0) {
      return error;
    }
    return avcodec_receive_frame(&codec, frame_.get());
  }

  std::map<AVCodecID, Owned<AVCodecContext>> codecs_;
  Owned<AVPacket> packet_;
  Owned<AVFrame> frame_;
  RgbConverter converter_;
};

}  // namespace

std::unique_ptr<PictureDecoder> PictureDecoder::Create() {
  ffmpeg::Silence();
  return std::make_unique<FfmpegPictureDecoder>();
}

}  // namespace lr::worker
