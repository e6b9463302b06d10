#pragma once
/// FFmpeg objects with owners, its error numbers as text, and opening a decoder. Included only by
/// the files that talk to FFmpeg. Any thread; each object belongs to one.

#include <memory>
#include <string>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

#include "common/base/status.h"

namespace lr::worker::ffmpeg {

struct Deleter {
  void operator()(AVFormatContext* context) const { avformat_close_input(&context); }

  void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }

  void operator()(AVFrame* frame) const { av_frame_free(&frame); }

  void operator()(AVPacket* packet) const { av_packet_free(&packet); }

  void operator()(SwsContext* context) const { sws_freeContext(context); }
};

template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

/// "Invalid data found when processing input" and the like.
std::string Reason(int error);

/// Keeps FFmpeg from writing to stderr: what goes wrong comes back as a Status. Idempotent.
void Silence();

/// A ready decoder with one thread. kUnimplemented when these libraries have none for the codec:
/// names it and says how to get one.
Result<Owned<AVCodecContext>> OpenDecoder(AVCodecID id, const AVCodecParameters* parameters);

}  // namespace lr::worker::ffmpeg
