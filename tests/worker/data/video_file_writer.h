#pragma once
/// Makes small videos for tests with FFmpeg's own encoders, every frame of a known grey level or
/// code.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lr::worker::testing {

struct VideoPlan {
  std::string encoder = "mpeg4";  ///< "ffv1" is lossless and can hold 12-bit grey
  int width = 64;
  int height = 48;
  int gop = 12;
  int max_b_frames = 2;
  bool is_gray12 = false;
  std::vector<int64_t> times_ms;  ///< presentation time of each frame
};

/// Frame i shows level `LevelOf(i)` everywhere (with is_gray12: the code LevelOf(i) * 16). Fails
/// the test when a library refuses.
void WriteVideo(const std::filesystem::path& path, const VideoPlan& plan);

/// Far enough apart to tell neighbours in a lossy video.
inline int LevelOf(int64_t frame) {
  return static_cast<int>(40 + (frame * 16) % 160);
}

/// 0, step, 2 step … milliseconds.
std::vector<int64_t> EvenTimes(int frames, int64_t step_ms);

}  // namespace lr::worker::testing
