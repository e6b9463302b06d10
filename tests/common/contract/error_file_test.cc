#include "common/contract/error_file.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr {
namespace {

using ::testing::HasSubstr;

class ErrorFileTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadErrorFile(path_);
  }

  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("lr_error_file_" + std::to_string(::getpid()) + ".json");
};

TEST_F(ErrorFileTest, BothShapesOfTorchrunAreRead) {
  EXPECT_EQ(Read(R"({"message": "ValueError: x", "timestamp": 1})"), "ValueError: x");
  EXPECT_EQ(
      Read(
          R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback\n...", "timestamp": "1"}}})"),
      "Traceback\n...");
  EXPECT_EQ(Read(R"({"message": {"message": "ValueError: x", "errorCode": 3}})"), "ValueError: x");
}

TEST_F(ErrorFileTest, MissingFileIsNoMessage) {
  EXPECT_EQ(ReadErrorFile("/no/such/error.json"), "");
  EXPECT_EQ(ReadErrorFile(""), "");
}

TEST_F(ErrorFileTest, WhatIsWrittenIsReadBackInTorchrunsShape) {
  ASSERT_TRUE(WriteErrorFile(path_, {.message = "no \"x\"", .exit_code = 2, .unix_s = 7}).ok());
  std::ifstream file(path_);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(
      text,
      R"({"message": {"message": "no \"x\"", "errorCode": 2, "extraInfo": {"py_callstack": "no \"x\"", "timestamp": "7"}}})");
  EXPECT_EQ(ReadErrorFile(path_), "no \"x\"");
  ASSERT_TRUE(WriteErrorFile(path_, {.message = "rank 3 ended", .details = "ValueError"}).ok());
  EXPECT_EQ(ReadErrorFile(path_), "ValueError");
}

TEST_F(ErrorFileTest, BrokenFilesAreReportedAndNeverRaise) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"message": 7})", R"({"message": {}})", "\xff\xfe"}) {
    EXPECT_THAT(Read(text), HasSubstr("is not readable")) << text;
  }
  EXPECT_THAT(Read(R"({"message": ")" + std::string(2 << 20, 'x') + R"("})"),
              HasSubstr("is not readable"));
}

}  // namespace
}  // namespace lr
