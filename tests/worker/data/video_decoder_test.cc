/// Frames by presentation time: random access equals reading front to back, whatever the codec
/// orders or spaces; bounds of the tolerance; damaged files.
#include "worker/data/video_decoder.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/temporary_folder.h"
#include "tests/worker/data/video_file_writer.h"
#include "worker/data/decoder_cache.h"
#include "worker/data/depth_codes.h"
#include "worker/data/picture_decoder.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::AllOf;
using testing::EvenTimes;
using ::testing::HasSubstr;
using testing::LevelOf;
using testing::TemporaryFolder;
using testing::VideoPlan;
using testing::WriteVideo;

constexpr double kTolerance = 1e-4;

std::vector<uint8_t> ReadAt(VideoDecoder& decoder,
                            double seconds,
                            double tolerance_s = kTolerance) {
  std::vector<uint8_t> planes(static_cast<size_t>(3 * decoder.size().pixels()));
  EXPECT_THAT(decoder.ReadRgb(seconds, tolerance_s, planes.data()), IsOk());
  return planes;
}

std::unique_ptr<VideoDecoder> OpenVideo(const std::filesystem::path& path) {
  auto decoder = VideoDecoder::Open(path);
  EXPECT_THAT(decoder, IsOk());
  return std::move(decoder).value();
}

/// Reads all times forward with one decoder and in random order with another: same bytes.
void ExpectOrderDoesNotMatter(const std::filesystem::path& path, const std::vector<double>& times) {
  const auto forward = OpenVideo(path);
  std::vector<std::vector<uint8_t>> frames;
  for (const double time : times) {
    frames.push_back(ReadAt(*forward, time));
  }
  const auto random = OpenVideo(path);
  std::mt19937 generator(7);
  for (int draw = 0; draw < 300; ++draw) {
    const size_t i = generator() % times.size();
    ASSERT_EQ(ReadAt(*random, times[i]), frames[i]) << "frame " << i << " in draw " << draw;
  }
}

std::vector<double> Seconds(int frames, double fps) {
  std::vector<double> seconds;
  for (int i = 0; i < frames; ++i) {
    seconds.push_back(i / fps);
  }
  return seconds;
}

TEST(VideoDecoderTest, RecordedFilesGiveTheSameFramesInAnyOrder) {
  for (const char* name : {"dataset_reach", "dataset_reach_h264"}) {
    SCOPED_TRACE(name);
    ExpectOrderDoesNotMatter(std::filesystem::path(LR_TEST_DATA) / name /
                                 "videos/observation.images.top/chunk-000/file-000.mp4",
                             Seconds(148, 10.0));
  }
}

class WrittenVideoTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const VideoPlan& plan) {
    const auto path = folder_.path() / "video.mp4";
    WriteVideo(path, plan);
    return path;
  }

  /// The frame at `seconds` is the `frame`-th one.
  static void ExpectFrame(VideoDecoder& decoder,
                          double seconds,
                          int64_t frame,
                          double tolerance_s = kTolerance) {
    const std::vector<uint8_t> planes = ReadAt(decoder, seconds, tolerance_s);
    const double wanted = (LevelOf(frame) - 16) * 255.0 / 219.0;  // limited to full range
    EXPECT_NEAR(planes[planes.size() / 6], wanted, 5.0) << seconds << " s";
  }

  TemporaryFolder folder_;
};

TEST_F(WrittenVideoTest, ReorderedFramesAreFoundByTheirTime) {
  const auto path = Write({.gop = 12, .max_b_frames = 2, .times_ms = EvenTimes(60, 100)});
  const auto decoder = OpenVideo(path);
  for (const int64_t frame : {0, 1, 59, 2, 30, 29, 28, 11, 12, 13, 47, 59, 0}) {
    ExpectFrame(*decoder, static_cast<double>(frame) / 10.0, frame);
  }
  ExpectOrderDoesNotMatter(path, Seconds(60, 10.0));
}

TEST_F(WrittenVideoTest, UnevenTimesAreFoundByTheNearestFrame) {
  const std::vector<int64_t> times = {0, 10, 500, 510, 520, 2000, 2004, 2100};
  const auto decoder = OpenVideo(Write({.gop = 4, .max_b_frames = 0, .times_ms = times}));
  for (const int64_t frame : {7, 0, 3, 6, 5, 1, 2, 4}) {
    ExpectFrame(*decoder, static_cast<double>(times[static_cast<size_t>(frame)]) / 1000.0, frame);
  }
  ExpectFrame(*decoder, 1.2, 4, 1.0);
  ExpectFrame(*decoder, 1.3, 5, 1.0);
}

TEST_F(WrittenVideoTest, ToleranceIsInclusiveAndNamesTimes) {
  const auto decoder =
      OpenVideo(Write({.gop = 2, .max_b_frames = 0, .times_ms = EvenTimes(10, 100)}));
  ExpectFrame(*decoder, 0.9, 9);
  ExpectFrame(*decoder, 0.96, 9, 0.1);  // behind the last frame
  ExpectFrame(*decoder, 0.35, 3, 0.05);
  std::vector<uint8_t> planes(static_cast<size_t>(3 * decoder->size().pixels()));
  EXPECT_THAT(decoder->ReadRgb(0.96, kTolerance, planes.data()),
              StatusIs(StatusCode::kOutOfRange,
                       AllOf(HasSubstr("no frame at 0.960000 s"),
                             HasSubstr("nearest one is at 0.900000 s"),
                             HasSubstr("covers 0.000000 s to 1.000000 s"),
                             HasSubstr("fps in meta/info.json"))));
  EXPECT_THAT(decoder->ReadRgb(-0.01, kTolerance, planes.data()),
              StatusIs(StatusCode::kOutOfRange, HasSubstr("-0.01")));
  EXPECT_THAT(decoder->ReadRgb(5.0, kTolerance, planes.data()),
              StatusIs(StatusCode::kOutOfRange, HasSubstr("5.0")));
  ExpectFrame(*decoder, 0.2, 2);  // usable afterwards
}

TEST_F(WrittenVideoTest, DepthCodesBecomeDistances) {
  const auto decoder =
      OpenVideo(Write({.encoder = "ffv1", .is_gray12 = true, .times_ms = EvenTimes(5, 100)}));
  const std::vector<float> distances = DepthByCode(CameraInfo{.is_depth = true}, true);
  std::vector<float> depth(static_cast<size_t>(decoder->size().pixels()));
  for (const int64_t frame : {3, 0, 4}) {
    ASSERT_THAT(
        decoder->ReadDepth(static_cast<double>(frame) / 10.0, kTolerance, distances, depth.data()),
        IsOk());
    const auto code = static_cast<size_t>(LevelOf(frame) * 16);
    EXPECT_TRUE(std::all_of(
        depth.begin(), depth.end(), [&](float value) { return value == distances[code]; }));
  }
}

TEST_F(WrittenVideoTest, ColourIsNoDepth) {
  const auto decoder = OpenVideo(Write({.times_ms = EvenTimes(2, 100)}));
  std::vector<float> depth(static_cast<size_t>(decoder->size().pixels()));
  EXPECT_THAT(
      decoder->ReadDepth(0.0, kTolerance, DepthByCode({}, true), depth.data()),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("gray12le"), HasSubstr("yuv420p"))));
}

TEST_F(WrittenVideoTest, DamagedFilesAreErrorsWithTheirName) {
  const auto path = Write({.gop = 2, .max_b_frames = 0, .times_ms = EvenTimes(20, 100)});
  EXPECT_THAT(VideoDecoder::Open(folder_.path() / "none.mp4"),
              StatusIs(StatusCode::kNotFound, HasSubstr("none.mp4")));
  folder_.Write("text.mp4", "this is no video");
  EXPECT_THAT(VideoDecoder::Open(folder_.path() / "text.mp4"),
              StatusIs(StatusCode::kDataLoss, HasSubstr("text.mp4")));
  // Cut files and flipped bytes: an error or a frame, never a crash or an endless loop.
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  std::mt19937 generator(3);
  for (int round = 0; round < 60; ++round) {
    std::string bytes = whole;
    if (round % 3 == 0) {
      bytes.resize(generator() % whole.size());
    }
    for (int flip = 0; flip < 8 && !bytes.empty(); ++flip) {
      bytes[generator() % bytes.size()] = static_cast<char>(generator());
    }
    folder_.Write("damaged.mp4", bytes);
    auto decoder = VideoDecoder::Open(folder_.path() / "damaged.mp4");
    if (!decoder.ok()) {
      EXPECT_THAT(decoder.status().message(), HasSubstr("damaged.mp4"));
      continue;
    }
    std::vector<uint8_t> planes(static_cast<size_t>(3 * (*decoder)->size().pixels()));
    for (const double seconds : {0.0, 1.5, 0.3}) {
      if (const Status status = (*decoder)->ReadRgb(seconds, kTolerance, planes.data());
          !status.ok()) {
        EXPECT_THAT(status.message(), HasSubstr("damaged.mp4"));
      }
    }
  }
}

TEST_F(WrittenVideoTest, TheCacheClosesWhatWasUsedLongestAgo) {
  const auto path = Write({.times_ms = EvenTimes(2, 100)});
  for (const char* name : {"a.mp4", "b.mp4", "c.mp4"}) {
    std::filesystem::copy_file(path, folder_.path() / name);
  }
  const auto file = [&](const char* name) { return (folder_.path() / name).string(); };
  DecoderCache cache(2);
  auto a = cache.Get(file("a.mp4"));
  auto b = cache.Get(file("b.mp4"));
  ASSERT_THAT(b, IsOk());
  EXPECT_EQ(*cache.Get(file("a.mp4")), *a);  // used again
  ASSERT_THAT(cache.Get(file("c.mp4")), IsOk());
  EXPECT_EQ(cache.size(), 2);
  EXPECT_EQ(*cache.Get(file("a.mp4")), *a);  // b went
}

TEST(DecoderCacheSizeTest, ReadsTheVariable) {
  const auto with = [](const char* value) {
    setenv("LEROBOT_VIDEO_DECODER_CACHE_SIZE", value, 1);
    const auto size = DecoderCacheSizeFromEnvironment();
    unsetenv("LEROBOT_VIDEO_DECODER_CACHE_SIZE");
    return size.ok() ? *size : -1;
  };
  EXPECT_EQ(*DecoderCacheSizeFromEnvironment(), 100);
  EXPECT_EQ(with("7"), 7);
  EXPECT_EQ(with("none"), 0);
  EXPECT_EQ(with(""), 0);
  EXPECT_EQ(with("-1"), 0);
  EXPECT_EQ(with("0"), -1);
  EXPECT_EQ(with("-2"), -1);
  EXPECT_EQ(with("many"), -1);
}

TEST(DepthCodesTest, SpanTheRangeWithTheLogarithmInBetween) {
  const std::vector<float> metres = DepthByCode(CameraInfo{}, false);
  ASSERT_EQ(metres.size(), 4096U);
  EXPECT_NEAR(metres.front(), 0.01, 1e-5);
  EXPECT_NEAR(metres.back(), 10.0, 1e-4);
  EXPECT_NEAR(metres[2048], std::sqrt((0.01 + 3.5) * (10.0 + 3.5)) - 3.5, 3e-3);
  EXPECT_TRUE(std::is_sorted(metres.begin(), metres.end()));
  EXPECT_EQ(DepthByCode(CameraInfo{}, true)[4095], 10000.0F);
  EXPECT_FLOAT_EQ(DepthByCode(CameraInfo{.depth_log = false}, false)[4095 / 3],
                  0.01F + 9.99F / 3.0F);
}

TEST(ReadableVideoCodecsTest, NamesWhatDatasetsUse) {
  EXPECT_THAT(ReadableVideoCodecs(), AllOf(HasSubstr("av1"), HasSubstr("h264"), HasSubstr("hevc")));
}

TEST(PictureDecoderTest, RefusesWhatIsNoPicture) {
  const auto decoder = PictureDecoder::Create();
  std::vector<uint8_t> planes;
  EXPECT_THAT(decoder->Decode("GIF89a", planes),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("6 bytes")));
  EXPECT_THAT(decoder->Decode(std::string("\x89PNG\r\n\x1a\n broken"), planes),
              StatusIs(StatusCode::kDataLoss, HasSubstr("png")));
}

}  // namespace
}  // namespace lr::worker
