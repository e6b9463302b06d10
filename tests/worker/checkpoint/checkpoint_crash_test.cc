// A kill at any instant of a save leaves `last` valid: at every durable operation in turn, and at
// random moments. A write that the system cuts short is an error that names the file.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/contract/checkpoint_scan.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"
#include "tests/worker/checkpoint/fake_checkpoint.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/checkpoint/resume_source.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

using ::lr::testing::IsOk;
using ::lr::testing::SmallSnapshot;
using ::lr::testing::TempDirectory;
using ::testing::HasSubstr;

constexpr int kRandomRounds = 50;
constexpr int64_t kElements = 4096;

CheckpointWriterOptions Options(const fs::path& output) {
  return {output, "run-1", 3, {}};
}

/// Runs `body` in a child process; returns its wait status.
int InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

/// What must hold after a kill: `last` names a complete checkpoint whose tensors all belong to its
/// step.
void ExpectLastIsValid(const fs::path& output, int64_t at_least) {
  const Result<ResumeSource> source = OpenResumeSource(output, VerifyLevel::kFull);
  ASSERT_THAT(source, IsOk());
  EXPECT_GE(source->training.step, at_least);
  const Result<SafetensorsFile> file = SafetensorsFile::Open(source->directory / kModelPath);
  ASSERT_THAT(file, IsOk());
  for (const std::string& name : file->names()) {
    EXPECT_EQ(file->Load(name)->min().item<double>(), static_cast<double>(source->training.step));
    EXPECT_EQ(file->Load(name)->max().item<double>(), static_cast<double>(source->training.step));
  }
}

void SaveSteps(const CheckpointWriterOptions& options, int64_t first, int64_t count) {
  SingleProcessGroup group;
  CheckpointWriter writer(options, group);
  for (int64_t step = first; step < first + count; ++step) {
    if (!writer.Save(step, SmallSnapshot(step, kElements)).ok()) {
      _exit(3);
    }
  }
  writer.WaitForCleanup();
}

/// Dies at the `n`-th operation of a save.
int KillAtOperation(const fs::path& output, int64_t step, int n) {
  return InChild([&] {
    CheckpointWriterOptions options = Options(output);
    options.fault_point = [&n](std::string_view) {
      if (n-- == 0) {
        raise(SIGKILL);
      }
      return Status();
    };
    SaveSteps(options, step, 1);
  });
}

TEST(CheckpointCrashTest, DyingAtEveryOperationOfASaveLeavesLastValid) {
  const TempDirectory output;
  SaveSteps(Options(output.path()), 1, 1);
  int64_t step = 2;
  int operations = 0;
  while (WIFSIGNALED(KillAtOperation(output.path(), step, operations))) {
    SCOPED_TRACE(operations);
    ExpectLastIsValid(output.path(), 1);
    ++operations;
    ++step;
  }
  EXPECT_EQ(operations,
            19);  // the whole list of CheckpointWriterTest.WritesInLeRobotsOrderAndTheManifestLast
  ExpectLastIsValid(output.path(), step);
}

TEST(CheckpointCrashTest, DyingWhileAPublishedStepIsSavedAgainLeavesLastValid) {
  const TempDirectory output;
  SaveSteps(Options(output.path()), 1, 1);
  int operations = 0;
  while (WIFSIGNALED(KillAtOperation(output.path(), 1, operations))) {
    SCOPED_TRACE(operations);
    ExpectLastIsValid(output.path(), 1);
    ++operations;
  }
  EXPECT_EQ(operations, 19);
}

TEST(CheckpointCrashTest, KillsAtRandomMomentsLeaveLastValidAndTheNextSaveWorks) {
  const TempDirectory output;
  SaveSteps(Options(output.path()), 1, 1);
  const auto start = std::chrono::steady_clock::now();
  SaveSteps(Options(output.path()), 2, 1);
  const std::chrono::nanoseconds one_save = std::chrono::steady_clock::now() - start;
  const unsigned seed = 20261129;
  std::mt19937 random(seed);
  RecordProperty("seed", static_cast<int>(seed));
  int killed = 0;
  int64_t last_step = 2;
  for (int round = 0; round < kRandomRounds; ++round) {
    SCOPED_TRACE(round);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      SaveSteps(Options(output.path()), last_step + 1, 1000);
      _exit(0);
    }
    const long long wait = static_cast<long long>(random()) % (3 * one_save.count());  // ~3 saves
    const timespec pause{wait / 1'000'000'000, wait % 1'000'000'000};
    nanosleep(&pause, nullptr);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status) ? 1 : 0;
    ExpectLastIsValid(output.path(), last_step);
    last_step = *ParseStepDirectoryName(*ReadLast(output / kCheckpointsFolder));
  }
  EXPECT_EQ(killed, kRandomRounds);
  RecordProperty("saves_published_before_kills", static_cast<int>(last_step - 2));
  EXPECT_GT(last_step, 2);  // kills reached every part of a save, not its start alone
  SaveSteps(Options(output.path()), last_step + 1, 1);
  ExpectLastIsValid(output.path(), last_step + 1);
  for (const std::string& name : ::lr::testing::NamesIn(output / kCheckpointsFolder)) {
    EXPECT_FALSE(IsTemporaryName(name) || IsDoomedName(name) || name.starts_with("last.tmp"))
        << name;
  }
}

TEST(CheckpointCrashTest, AWriteThatTheSystemCutsShortNamesTheFileAndKeepsLast) {
  const TempDirectory output;
  SaveSteps(Options(output.path()), 1, 1);
  const int status = InChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20'000, 20'000};  // the RNG state fits, the model does not
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      _exit(4);
    }
    SingleProcessGroup group;
    CheckpointWriter writer(Options(output.path()), group);
    const Result<PublishedCheckpoint> published = writer.Save(2, SmallSnapshot(2, kElements));
    const std::string message = published.status().message();
    const bool as_expected = published.status().code() == StatusCode::kResourceExhausted &&
                             message.find("model.safetensors") != std::string::npos &&
                             message.find("step 2 not saved") != std::string::npos;
    _exit(as_expected ? 0 : 5);
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ExpectLastIsValid(output.path(), 1);
  EXPECT_EQ(*ReadLast(output / kCheckpointsFolder), "000001");
}

TEST(CheckpointCrashTest, AFolderWithoutWritePermissionIsAnErrorThatNamesIt) {
  const TempDirectory output;
  SaveSteps(Options(output.path()), 1, 1);
  const fs::path checkpoints = output / kCheckpointsFolder;
  fs::permissions(output.path(), fs::perms(0755));
  fs::permissions(checkpoints, fs::perms(0555));
  const int status = InChild([&] {
    constexpr uid_t kNobody = 65534;
    if (getuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) {
      _exit(4);
    }
    SingleProcessGroup group;
    CheckpointWriter writer(Options(output.path()), group);
    const Status saved = writer.Save(2, SmallSnapshot(2)).status();
    const bool as_expected = saved.code() == StatusCode::kPermissionDenied &&
                             saved.message().find(checkpoints.string()) != std::string::npos;
    _exit(as_expected ? 0 : 5);
  });
  fs::permissions(checkpoints, fs::perms(0755));
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(::lr::testing::NamesIn(checkpoints), ::testing::ElementsAre("000001", "last"));
  ExpectLastIsValid(output.path(), 1);
}

}  // namespace
}  // namespace lr::worker
