/// The encoder side of the video tests.
#include "tests/worker/data/video_file_writer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "worker/data/ffmpeg_handles.h"

namespace lr::worker::testing {

namespace {

using ffmpeg::Owned;

constexpr int64_t kFrameMs = 100;

struct OutputDeleter {
  void operator()(AVFormatContext* context) const {
    avio_closep(&context->pb);
    avformat_free_context(context);
  }
};

using Output = std::unique_ptr<AVFormatContext, OutputDeleter>;

Owned<AVCodecContext> OpenEncoder(const VideoPlan& plan) {
  const AVCodec* codec = avcodec_find_encoder_by_name(plan.encoder.c_str());
  Owned<AVCodecContext> encoder(avcodec_alloc_context3(codec));
  encoder->width = plan.width;
  encoder->height = plan.height;
  encoder->pix_fmt = plan.is_gray12 ? AV_PIX_FMT_GRAY12LE : AV_PIX_FMT_YUV420P;
  encoder->time_base = {1, 1000};
  encoder->framerate = {10, 1};
  encoder->gop_size = plan.gop;
  encoder->max_b_frames = plan.is_gray12 ? 0 : plan.max_b_frames;
  encoder->thread_count = 1;
  encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER | AV_CODEC_FLAG_QSCALE;
  encoder->global_quality = FF_QP2LAMBDA * 2;
  EXPECT_EQ(avcodec_open2(encoder.get(), codec, nullptr), 0);
  return encoder;
}

void Fill(AVFrame& frame, const VideoPlan& plan, int level) {
  for (int row = 0; row < plan.height; ++row) {
    uint8_t* line = frame.data[0] + row * frame.linesize[0];
    if (plan.is_gray12) {
      std::fill_n(reinterpret_cast<uint16_t*>(line), plan.width, static_cast<uint16_t>(level * 16));
    } else {
      std::fill_n(line, plan.width, static_cast<uint8_t>(level));
    }
  }
  for (int plane = 1; !plan.is_gray12 && plane < 3; ++plane) {
    for (int row = 0; row < plan.height / 2; ++row) {
      std::fill_n(frame.data[plane] + row * frame.linesize[plane], plan.width / 2, uint8_t{128});
    }
  }
}

/// Sends one frame (or the end) and writes the packets that come out.
void Encode(AVCodecContext& encoder, AVFormatContext& output, const AVFrame* frame) {
  ASSERT_EQ(avcodec_send_frame(&encoder, frame), 0);
  const Owned<AVPacket> packet(av_packet_alloc());
  while (avcodec_receive_packet(&encoder, packet.get()) == 0) {
    packet->duration = kFrameMs;  // a file ends with the duration of its last frame
    av_packet_rescale_ts(packet.get(), encoder.time_base, output.streams[0]->time_base);
    packet->stream_index = 0;
    ASSERT_EQ(av_interleaved_write_frame(&output, packet.get()), 0);
  }
}

}  // namespace

std::vector<int64_t> EvenTimes(int frames, int64_t step_ms) {
  std::vector<int64_t> times;
  for (int i = 0; i < frames; ++i) {
    times.push_back(i * step_ms);
  }
  return times;
}

void WriteVideo(const std::filesystem::path& path, const VideoPlan& plan) {
  ffmpeg::Silence();
  std::filesystem::create_directories(path.parent_path());
  const Owned<AVCodecContext> encoder = OpenEncoder(plan);
  AVFormatContext* context = nullptr;
  const char* format = plan.encoder == "ffv1" ? "matroska" : "mp4";
  ASSERT_GE(avformat_alloc_output_context2(&context, nullptr, format, path.c_str()), 0);
  const Output output(context);
  AVStream* stream = avformat_new_stream(context, nullptr);
  ASSERT_GE(avcodec_parameters_from_context(stream->codecpar, encoder.get()), 0);
  stream->time_base = encoder->time_base;
  ASSERT_GE(avio_open(&context->pb, path.c_str(), AVIO_FLAG_WRITE), 0);
  ASSERT_GE(avformat_write_header(context, nullptr), 0);
  const Owned<AVFrame> frame(av_frame_alloc());
  frame->width = plan.width;
  frame->height = plan.height;
  frame->format = encoder->pix_fmt;
  ASSERT_GE(av_frame_get_buffer(frame.get(), 0), 0);
  for (size_t i = 0; i < plan.times_ms.size(); ++i) {
    ASSERT_GE(av_frame_make_writable(frame.get()), 0);
    Fill(*frame, plan, LevelOf(static_cast<int64_t>(i)));
    frame->pts = plan.times_ms[i];
    frame->quality = encoder->global_quality;
    Encode(*encoder, *context, frame.get());
  }
  Encode(*encoder, *context, nullptr);
  ASSERT_GE(av_write_trailer(context), 0);
}

}  // namespace lr::worker::testing
