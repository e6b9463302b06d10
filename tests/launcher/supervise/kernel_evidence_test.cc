#include "launcher/supervise/kernel_evidence.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A folder with the files of /proc and /sys that matter.
class KernelEvidenceTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  static WorkerEnding Ended(int signal, int64_t pid = 77) {
    WorkerEnding ending;
    ending.pid = pid;
    ending.signal = signal;
    return ending;
  }

  const std::string root_ = ::testing::TempDir() + "kernel_evidence_" + std::to_string(getpid());
  KernelEvidence kernel_{root_};
};

TEST_F(KernelEvidenceTest, KillInTheWorkersOwnGroupNamesCountLimitAndPeak) {
  Write("/proc/77/cgroup", "0::/job/step\n");
  Write("/sys/fs/cgroup/job/step/memory.events", "low 0\noom 3\noom_kill 4\noom_group_kill 0\n");
  Write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  Write("/sys/fs/cgroup/job/step/memory.peak", "3221225472\n");
  Write("/sys/fs/cgroup/job/memory.max", "4294967296\n");
  kernel_.Track(77);
  EXPECT_EQ(kernel_.Explain(Ended(SIGKILL)), "");
  Write("/sys/fs/cgroup/job/step/memory.events", "oom_kill 5\n");
  EXPECT_THAT(kernel_.Explain(Ended(SIGKILL)),
              AllOf(HasSubstr("1 kill for lack of memory in control group"),
                    HasSubstr("/job/step since the worker started, limit 4.0 GiB, peak 3.0 GiB")));
}

TEST_F(KernelEvidenceTest, EachCountedKillExplainsOneEnding) {
  Write("/proc/77/cgroup", "0::/job\n");
  Write("/proc/78/cgroup", "0::/job\n");
  Write("/sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  kernel_.Track(77);
  kernel_.Track(78);
  Write("/sys/fs/cgroup/job/memory.events", "oom_kill 1\n");
  EXPECT_NE(kernel_.Explain(Ended(SIGKILL, 78)), "");
  EXPECT_EQ(kernel_.Explain(Ended(SIGKILL, 77)), "");
}

TEST_F(KernelEvidenceTest, WorkerThatExitsDoesNotUseUpTheKillOfAnother) {
  Write("/proc/77/cgroup", "0::/job\n");
  Write("/proc/78/cgroup", "0::/job\n");
  Write("/sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  kernel_.Track(77);
  kernel_.Track(78);
  Write("/sys/fs/cgroup/job/memory.events", "oom_kill 1\n");
  WorkerEnding exited = Ended(0, 78);
  EXPECT_EQ(kernel_.Explain(exited), "");
  exited.exit_code = 1;
  EXPECT_NE(kernel_.Explain(exited), "");
  EXPECT_NE(kernel_.Explain(Ended(SIGKILL, 77)), "");
}

TEST_F(KernelEvidenceTest, NearestReadableGroupAroundTheWorkerIsAsked) {
  Write("/proc/77/cgroup", "0::/outside/of/the/container\n");
  Write("/sys/fs/cgroup/outside/memory.events", "oom_kill 0\n");
  kernel_.Track(77);
  Write("/sys/fs/cgroup/outside/memory.events", "oom_kill 2\n");
  EXPECT_THAT(kernel_.Explain(Ended(SIGKILL)), HasSubstr("2 kills for lack of memory"));
}

TEST_F(KernelEvidenceTest, FirstVersionOfControlGroupsIsRead) {
  Write("/proc/77/cgroup", "12:cpu,cpuacct:/x\n4:memory:/job\n0::/y\n");
  Write("/sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 7\n");
  Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  Write("/sys/fs/cgroup/memory/job/memory.max_usage_in_bytes", "1073741824\n");
  kernel_.Track(77);
  Write("/sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill 8\n");
  EXPECT_THAT(kernel_.Explain(Ended(SIGKILL)), HasSubstr("limit 1.0 GiB, peak 1.0 GiB"));
}

TEST_F(KernelEvidenceTest, WithoutGroupsTheMachinesCounterIsAsked) {
  Write("/proc/77/cgroup", "");
  Write("/proc/vmstat", "nr_free_pages 1\noom_kill 3\n");
  kernel_.Track(77);
  EXPECT_EQ(kernel_.Explain(Ended(SIGKILL)), "");
  Write("/proc/vmstat", "oom_kill 4\n");
  EXPECT_THAT(kernel_.Explain(Ended(SIGKILL)), HasSubstr("the machine's counter of kills"));
}

TEST_F(KernelEvidenceTest, NothingReadableIsNoEvidence) {
  kernel_.Track(77);
  EXPECT_EQ(kernel_.Explain(Ended(SIGKILL)), "");
  EXPECT_EQ(kernel_.Explain(Ended(SIGKILL, 99)), "");
  EXPECT_EQ(kernel_.Explain(Ended(SIGBUS)), "");
  EXPECT_EQ(kernel_.Explain(Ended(SIGTERM)), "");
}

TEST(CounterInTest, WholeKeysOnly) {
  EXPECT_EQ(CounterIn("oom_kill_disable 1\noom_kill 2\n", "oom_kill"), 2);
  EXPECT_EQ(CounterIn("oom_kill_disable 1\n", "oom_kill"), std::nullopt);
  EXPECT_EQ(CounterIn("oom_kill many\n", "oom_kill"), std::nullopt);
}

}  // namespace
}  // namespace lr::launcher
