#include "launcher/run_directory.h"

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

class RunDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "run_directory_" + std::to_string(getpid());
};

TEST_F(RunDirectoryTest, StateDirectoryByTheRunsName) {
  const EnvironmentReader environment = MapEnvironment({{"XDG_STATE_HOME", folder_}});
  EXPECT_EQ(*CreateRunDirectory("", "r1", "0123456789ab", environment), folder_ + "/lr/runs/r1");
  EXPECT_EQ(*CreateRunDirectory("", "r1", "0123456789ab", environment),
            folder_ + "/lr/runs/r1_01234567");
  EXPECT_THAT(CreateRunDirectory("", "r1", "0123456789ab", environment),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("r1_01234567")));
}

TEST_F(RunDirectoryTest, LogDirectoryByRunAndNode) {
  EXPECT_EQ(*CreateRunDirectory(folder_ + "/logs", "r/1", "0123456789ab", MapEnvironment({})),
            folder_ + "/logs/r_1_01234567");
  EXPECT_EQ(*CreateRunDirectory("/dev/null", "r", "0123456789ab", MapEnvironment({})), "");
}

TEST_F(RunDirectoryTest, HomeIsNeededOnlyWithoutOtherPlaces) {
  EXPECT_THAT(CreateRunDirectory("", "r", "0", MapEnvironment({})),
              StatusIs(StatusCode::kNotFound, HasSubstr("XDG_STATE_HOME")));
}

TEST_F(RunDirectoryTest, AttemptHoldsAFolderPerWorker) {
  EXPECT_EQ(*CreateAttemptDirectory(folder_, 0, 2), folder_ + "/attempt_0");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/attempt_0/1"));
  EXPECT_EQ(*CreateAttemptDirectory("", 0, 2), "");
}

TEST_F(RunDirectoryTest, EarlierAttemptsFolderIsLeftAlone) {
  EXPECT_EQ(*CreateAttemptDirectory(folder_, 1, 1), folder_ + "/attempt_1");
  EXPECT_EQ(*CreateAttemptDirectory(folder_, 1, 1), folder_ + "/attempt_1.1");
  EXPECT_EQ(*CreateAttemptDirectory(folder_, 1, 1), folder_ + "/attempt_1.2");
}

TEST_F(RunDirectoryTest, TemporaryLogDirectoryIsNewEachTime) {
  const EnvironmentReader environment = MapEnvironment({{"TMPDIR", folder_}});
  const auto first = CreateTemporaryLogDirectory("r", "0123456789ab", environment);
  const auto second = CreateTemporaryLogDirectory("r", "0123456789ab", environment);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_NE(*first, *second);
  EXPECT_THAT(*first, ::testing::MatchesRegex(".*/torchelastic_01[A-Za-z0-9]{6}/r_01234567"));
}

TEST_F(RunDirectoryTest, SocketFolderIsPrivate) {
  const auto path = CreateSocketDirectory(MapEnvironment({{"XDG_RUNTIME_DIR", folder_}}));
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(*path, folder_ + "/lr");
  chmod(path->c_str(), 0777);
  EXPECT_THAT(CreateSocketDirectory(MapEnvironment({{"XDG_RUNTIME_DIR", folder_}})),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("nobody else may write")));
}

TEST_F(RunDirectoryTest, LongRuntimeFolderIsNotUsedForSockets) {
  const std::string deep = folder_ + "/" + std::string(80, 'x');
  std::filesystem::create_directories(deep);
  const auto path = CreateSocketDirectory(MapEnvironment({{"XDG_RUNTIME_DIR", deep}}));
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(*path, "/tmp/lr-" + std::to_string(getuid()));
}

TEST(FolderNameTest, OnlyPlainCharacters) {
  EXPECT_EQ(FolderName("a b/../c:d"), "a_b_.._c_d");
  EXPECT_EQ(FolderName(".."), "_.");
  EXPECT_EQ(FolderName(""), "run");
  EXPECT_EQ(FolderName(std::string(300, 'x')).size(), 128U);
}

}  // namespace
}  // namespace lr::launcher
