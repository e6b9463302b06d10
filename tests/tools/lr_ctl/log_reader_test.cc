#include "tools/lr_ctl/log_reader.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

namespace lr {
namespace {

namespace fs = std::filesystem;

class LogReaderTest : public ::testing::Test {
 protected:
  LogReaderTest() {
    std::string name = (fs::temp_directory_path() / "lr-reader-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/stdout.log";
  }

  ~LogReaderTest() override { fs::remove_all(folder_); }

  void Append(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }

  void Rotate() const {
    if (fs::exists(path_ + ".1")) {
      fs::rename(path_ + ".1", path_ + ".2");
    }
    fs::rename(path_, path_ + ".1");
  }

  static std::string ReadAll(LogReader& reader) {
    std::string all;
    for (std::string bytes = reader.Read(); !bytes.empty(); bytes = reader.Read()) {
      all += bytes;
    }
    return all;
  }

  std::string Last(size_t lines) const {
    LogReader reader(path_);
    reader.SkipToLast(lines);
    return ReadAll(reader);
  }

  std::string folder_;
  std::string path_;
};

TEST_F(LogReaderTest, FollowsAFileFromBeforeItsFirstByte) {
  LogReader reader(path_);
  EXPECT_EQ(reader.Read(), "");
  Append("a\n");
  EXPECT_EQ(ReadAll(reader), "a\n");
  Append("b");
  EXPECT_EQ(ReadAll(reader), "b");
  EXPECT_EQ(reader.Read(), "");
}

TEST_F(LogReaderTest, BeginsWithTheOldestRotatedPart) {
  Append("a\n");
  Rotate();
  Append("b\n");
  Rotate();
  Append("c\n");
  LogReader reader(path_);
  EXPECT_EQ(ReadAll(reader), "a\nb\nc\n");
}

TEST_F(LogReaderTest, LosesNothingWhenTheFileRotatesTwiceBetweenTwoLooks) {
  Append("a\n");
  LogReader reader(path_);
  EXPECT_EQ(ReadAll(reader), "a\n");
  Append("b\n");
  Rotate();
  Append("c\n");
  Rotate();
  Append("d\n");
  EXPECT_EQ(ReadAll(reader), "b\nc\nd\n");
}

TEST_F(LogReaderTest, LastLinesReachBackIntoRotatedParts) {
  Append("a\nb\n");
  Rotate();
  Append("c\nd");
  EXPECT_EQ(Last(0), "");
  EXPECT_EQ(Last(1), "d");
  EXPECT_EQ(Last(2), "c\nd");
  EXPECT_EQ(Last(3), "b\nc\nd");
  EXPECT_EQ(Last(9), "a\nb\nc\nd");
}

TEST_F(LogReaderTest, LastLinesOfAFileLongerThanABlock) {
  for (int i = 0; i < 20000; ++i) {
    Append("line " + std::to_string(i) + "\n");
  }
  EXPECT_TRUE(Last(15000).starts_with("line 5000\n"));
  EXPECT_EQ(Last(2), "line 19998\nline 19999\n");
}

}  // namespace
}  // namespace lr
