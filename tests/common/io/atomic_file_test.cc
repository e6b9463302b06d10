#include "common/io/atomic_file.h"

#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/io/directory_lock.h"
#include "tests/support/status_matchers.h"

namespace lr {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    std::string name = (fs::temp_directory_path() / "lr-io-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }

  ~AtomicFileTest() override { fs::remove_all(folder_); }

  size_t Count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  std::string folder_;
};

TEST_F(AtomicFileTest, WritesAndReplacesTheWholeFile) {
  const std::string path = folder_ + "/a.json";
  ASSERT_THAT(WriteFileAtomic(path, "one"), IsOk());
  ASSERT_THAT(WriteFileAtomic(path, std::string("t\0o", 3)), IsOk());
  EXPECT_EQ(*ReadFile(path), std::string("t\0o", 3));
  EXPECT_EQ(Count(), 1U);

  struct stat info {};

  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0444U, 0444U);
}

TEST_F(AtomicFileTest, AFailedWriteLeavesTheOldFileAndNoSibling) {
  const std::string path = folder_ + "/a.json";
  ASSERT_THAT(WriteFileAtomic(path, "old"), IsOk());
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tiny = {10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tiny);
  const Status status = WriteFileAtomic(path, std::string(100, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted, HasSubstr(path)));
  EXPECT_EQ(*ReadFile(path), "old");
  EXPECT_EQ(Count(), 1U);
}

TEST_F(AtomicFileTest, ReadingIsBoundedAndNamesThePath) {
  ASSERT_THAT(WriteFileAtomic(folder_ + "/a", "12345"), IsOk());
  EXPECT_THAT(ReadFile(folder_ + "/a", 4),
              StatusIs(StatusCode::kOutOfRange, AllOf(HasSubstr("5 bytes"), HasSubstr("limit 4"))));
  EXPECT_THAT(ReadFile(folder_ + "/b"), StatusIs(StatusCode::kNotFound, HasSubstr(folder_ + "/b")));
  EXPECT_THAT(ReadFile(folder_), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("directory")));
}

TEST_F(AtomicFileTest, ADirectoryBelongsToOneRun) {
  Result<DirectoryLock> mine = DirectoryLock::Acquire(folder_, ThisProcess("run-a"));
  ASSERT_THAT(mine, IsOk());
  EXPECT_THAT(DirectoryLock::Acquire(folder_, ThisProcess("run-a")), IsOk())
      << "the same run is let in";
  EXPECT_THAT(DirectoryLock::Acquire(folder_, ThisProcess("run-b")),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("run-a"), HasSubstr(std::to_string(getpid())))));
  EXPECT_THAT(DirectoryLock::Acquire(folder_, ThisProcess("")),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("run-a")));
}

TEST_F(AtomicFileTest, TheLockOfADeadOwnerIsFree) {
  const pid_t child = fork();
  if (child == 0) {
    const Result<DirectoryLock> lock = DirectoryLock::Acquire(folder_, ThisProcess("dead"));
    _exit(lock.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_THAT(DirectoryLock::Acquire(folder_, ThisProcess("next")), IsOk());
  EXPECT_EQ(ReadLockOwner(folder_)->run_id, "next");
}

TEST_F(AtomicFileTest, AnUnreadableOwnerDoesNotStopTheNextRun) {
  for (const char* text : {"", "{", "[1]", R"({"run_id": 5, "host": [], "pid": "x"})"}) {
    ASSERT_THAT(WriteFileAtomic(folder_ + "/.lr-lock", text), IsOk());
    const std::optional<LockOwner> owner = ReadLockOwner(folder_);
    EXPECT_TRUE(!owner || owner->run_id.empty()) << text;
    EXPECT_THAT(DirectoryLock::Acquire(folder_, ThisProcess("next")), IsOk()) << text;
  }
}

}  // namespace
}  // namespace lr
