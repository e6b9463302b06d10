#include "launcher/supervise/log_writer.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::testing::HasSubstr;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class LogWriterTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string ReadFile(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  static std::unique_ptr<LogWriter> QuietWriter() {
    return std::make_unique<LogWriter>(RotationLimits{},
                                       [](const std::string& text) { ADD_FAILURE() << text; });
  }

  /// A pipe under a name stands for a disk that takes nothing until somebody reads.
  std::string StuckDisk() const {
    const std::string path = folder_ + "/stuck";
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  const std::string folder_ = ::testing::TempDir() + "log_writer_" + std::to_string(getpid());
};

TEST_F(LogWriterTest, FilesExistAndAreAppendedTo) {
  std::ofstream(folder_ + "/a") << "before\n";
  auto logs = QuietWriter();
  const int a = logs->Open(folder_ + "/a");
  const int b = logs->Open(folder_ + "/b");
  EXPECT_EQ(logs->Open(folder_ + "/a"), a);
  logs->Write(a, "one\n");
  logs->Write(a, "two\n");
  EXPECT_TRUE(logs->Flush(5s));
  EXPECT_NE(a, b);
  EXPECT_EQ(ReadFile(folder_ + "/a"), "before\none\ntwo\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/b"));
}

TEST_F(LogWriterTest, FullDiskTurnsAllFilesOffWithOneWarning) {
  std::vector<std::string> warnings;
  LogWriter logs({}, [&](const std::string& text) { warnings.push_back(text); });
  const int full = logs.Open("/dev/full");
  const int other = logs.Open(folder_ + "/a");
  for (int i = 0; i < 100; ++i) {
    logs.Write(full, "lost\n");
    logs.Write(other, "fine\n");
  }
  EXPECT_TRUE(logs.Flush(5s));
  EXPECT_FALSE(logs.Hold(full, [] {}));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("cannot write /dev/full: No space left on device"));
}

TEST_F(LogWriterTest, ReaderIsHeldUntilTheDiskTookBytes) {
  const std::string path = StuckDisk();
  auto logs = QuietWriter();
  const int file = logs->Open(path);
  EXPECT_FALSE(logs->Hold(file, [] {}));
  for (int i = 0; i < 20; ++i) {
    logs->Write(file, std::string(99'999, 'x') + "\n");
  }
  std::promise<void> room;
  ASSERT_TRUE(logs->Hold(file, [&] { room.set_value(); }));
  EXPECT_FALSE(logs->Flush(0ms));
  std::string text;
  std::thread reader([&] { text = ReadFile(path); });
  room.get_future().wait();
  EXPECT_TRUE(logs->Flush(5s));
  logs.reset();
  reader.join();
  EXPECT_EQ(text.size(), 2'000'000U);
}

TEST_F(LogWriterTest, WhatADiskThatStandsStillCannotTakeIsDroppedAndCounted) {
  const std::string path = StuckDisk();
  auto logs = QuietWriter();
  const int file = logs->Open(path);
  for (int i = 0; i < 100; ++i) {  // 10 MB
    logs->Write(file, std::string(99'999, 'x') + "\n");
  }
  logs->Write(file, "last\n");
  std::string text;
  std::thread reader([&] { text = ReadFile(path); });
  EXPECT_TRUE(logs->Flush(5s));
  logs.reset();
  reader.join();
  EXPECT_NE(text.find("lines dropped here: the disk stood still\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("last\n"));
  EXPECT_LT(text.size(), 5U << 20);
}

TEST_F(LogWriterTest, LargeFilesAreRotatedBetweenLinesAndTheNewestAreKept) {
  LogFile log(folder_ + "/r", {.max_bytes = 10, .kept = 2});
  ASSERT_THAT(log.Open(), IsOk());
  for (const char* text : {"line1\nli", "ne2\nline3\n", "line4\n", "line5\n"}) {
    ASSERT_THAT(log.Append(text), IsOk());
  }
  EXPECT_EQ(ReadFile(folder_ + "/r"), "line5\n");
  EXPECT_EQ(ReadFile(folder_ + "/r.1"), "line4\n");
  EXPECT_EQ(ReadFile(folder_ + "/r.2"), "ne2\nline3\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/r.3"));
}

TEST_F(LogWriterTest, LineLongerThanAFileIsCut) {
  LogFile log(folder_ + "/r", {.max_bytes = 4, .kept = 9});
  ASSERT_THAT(log.Open(), IsOk());
  ASSERT_THAT(log.Append("0123456789\n"), IsOk());
  EXPECT_EQ(ReadFile(folder_ + "/r.2") + ReadFile(folder_ + "/r.1") + ReadFile(folder_ + "/r"),
            "0123456789\n");
}

}  // namespace
}  // namespace lr::launcher
