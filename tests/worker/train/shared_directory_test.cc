// Whether all nodes see the main rank's output directory: its lock, read back.
#include "worker/train/shared_directory.h"

#include <filesystem>
#include <unistd.h>

#include "common/io/directory_lock.h"
#include "tests/support/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;

class SharedDirectoryTest : public ::testing::Test {
 protected:
  SharedDirectoryTest() {
    fs::create_directories(folder_ / "main");
    fs::create_directories(folder_ / "other");
  }

  ~SharedDirectoryTest() override { fs::remove_all(folder_); }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / fmt::format("shared_directory_{}", getpid());
};

TEST_F(SharedDirectoryTest, OneDirectoryIsSeenByAll) {
  const auto lock = DirectoryLock::Acquire((folder_ / "main").string(), ThisProcess("run"));
  ASSERT_THAT(lock, IsOk());
  lr::testing::RunRanks(3, [&](Communicator& ranks) {
    EXPECT_EQ(
        HostsWithoutDirectory(ranks, (folder_ / "main").string(), true, std::chrono::seconds(0))
            .value(),
        "");
  });
}

TEST_F(SharedDirectoryTest, HostsThatSeeAnotherOneAreNamedOnAllRanks) {
  const auto lock = DirectoryLock::Acquire((folder_ / "main").string(), ThisProcess("run"));
  const auto own = DirectoryLock::Acquire((folder_ / "other").string(), ThisProcess("another"));
  ASSERT_THAT(lock, IsOk());
  ASSERT_THAT(own, IsOk());
  for (const char* elsewhere : {"other", "absent"}) {
    lr::testing::RunRanks(3, [&](Communicator& ranks) {
      const char* mine = ranks.rank() == 2 ? elsewhere : "main";
      EXPECT_EQ(
          HostsWithoutDirectory(ranks, (folder_ / mine).string(), true, std::chrono::seconds(0))
              .value(),
          ThisProcess("").host);
    });
  }
}

TEST_F(SharedDirectoryTest, RanksThatDoNotLookBlameNobody) {
  const auto lock = DirectoryLock::Acquire((folder_ / "main").string(), ThisProcess("run"));
  ASSERT_THAT(lock, IsOk());
  lr::testing::RunRanks(2, [&](Communicator& ranks) {
    const char* mine = ranks.rank() == 1 ? "absent" : "main";
    EXPECT_EQ(HostsWithoutDirectory(
                  ranks, (folder_ / mine).string(), ranks.rank() == 0, std::chrono::seconds(0))
                  .value(),
              "");
  });
}

}  // namespace
}  // namespace lr::worker
