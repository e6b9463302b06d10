/// Helpers of the FFmpeg border.
#include "worker/data/ffmpeg_handles.h"

#include <array>

namespace lr::worker::ffmpeg {

std::string Reason(int error) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(error, text.data(), text.size());
  return text.data();
}

void Silence() {
  av_log_set_level(AV_LOG_QUIET);
}

Result<Owned<AVCodecContext>> OpenDecoder(AVCodecID id, const AVCodecParameters* parameters) {
  const AVCodec* codec = avcodec_find_decoder(id);
  if (codec == nullptr) {
    return Unimplemented(
        "the FFmpeg libraries here have no decoder for {}: install a libavcodec with one (AV1 "
        "needs "
        "libdav1d), or re-encode the videos as H.264",
        avcodec_get_name(id));
  }
  Owned<AVCodecContext> context(avcodec_alloc_context3(codec));
  if (!context) {
    return ResourceExhausted("no memory for a {} decoder", avcodec_get_name(id));
  }
  if (parameters != nullptr) {
    if (const int error = avcodec_parameters_to_context(context.get(), parameters); error < 0) {
      return DataLoss("damaged {} stream header: {}", avcodec_get_name(id), Reason(error));
    }
  }
  context->thread_count = 1;  // the loader's threads are the parallelism
  if (const int error = avcodec_open2(context.get(), codec, nullptr); error < 0) {
    return DataLoss("the {} decoder does not start: {}", avcodec_get_name(id), Reason(error));
  }
  return context;
}

}  // namespace lr::worker::ffmpeg
