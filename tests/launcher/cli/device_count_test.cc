#include "launcher/cli/device_count.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/machine_probe.h"
#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<ProcessCount> Count(const std::string& text,
                           const MachineFacts& machine,
                           std::map<std::string, std::string> variables = {}) {
  return CountProcesses(
      text, "--nproc-per-node=" + text, machine, MapEnvironment(std::move(variables)));
}

TEST(DeviceCountTest, ListsAreCutAtTheFirstImpossibleEntry) {
  EXPECT_EQ(CountVisible("0,1,3", 4), 3);
  EXPECT_EQ(CountVisible("0,9,1", 4), 1);
  EXPECT_EQ(CountVisible("0,-1,1", 4), 1);
  EXPECT_EQ(CountVisible("", 4), 0);
  EXPECT_EQ(CountVisible("-1", 4), 0);
  EXPECT_EQ(CountVisible("GPU-aa, GPU-bb", 4), 2);
  EXPECT_EQ(CountVisible("0.0,1.1", 4), 2);
  EXPECT_EQ(CountVisible("0,,1", 4), 1);
}

TEST(DeviceCountTest, GpuHonoursTheVendorsVariable) {
  const MachineFacts nvidia = {.nvidia_devices = 4};
  EXPECT_EQ(Count("gpu", nvidia)->count, 4);
  EXPECT_EQ(Count("gpu", nvidia, {{"CUDA_VISIBLE_DEVICES", "1,2"}})->count, 2);
  const MachineFacts amd = {.amd_devices = 8};
  EXPECT_EQ(Count("gpu", amd, {{"CUDA_VISIBLE_DEVICES", "0,1"}})->count, 2);
  const auto both =
      Count("gpu", amd, {{"HIP_VISIBLE_DEVICES", "0,1,2"}, {"CUDA_VISIBLE_DEVICES", "0"}});
  EXPECT_EQ(both->count, 3);
  EXPECT_THAT(both->notes, ElementsAre(HasSubstr("HIP_VISIBLE_DEVICES is used")));
}

TEST(InterfaceAddressTest, LoopbackHasOneAndUnknownNamesHaveNone) {
  EXPECT_EQ(InterfaceAddress("lo"), "127.0.0.1");
  EXPECT_EQ(InterfaceAddress("no-such-interface"), std::nullopt);
}

TEST(DeviceCountTest, NoDeviceIsAnError) {
  EXPECT_THAT(Count("gpu", {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("this node has no GPU device")));
  EXPECT_THAT(Count("xpu", {}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no XPU device")));
  EXPECT_THAT(Count("gpu", {.nvidia_devices = 2}, {{"CUDA_VISIBLE_DEVICES", ""}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("hides all of them")));
}

TEST(DeviceCountTest, AutoTakesTheBestThereIs) {
  EXPECT_EQ(Count("auto", {.nvidia_devices = 3, .online_cpus = 8, .affinity_cpus = 8})->count, 3);
  EXPECT_EQ(Count("auto", {.intel_devices = 2, .online_cpus = 8, .affinity_cpus = 8})->count, 2);
  EXPECT_EQ(Count("auto", {.online_cpus = 8, .affinity_cpus = 8})->count, 8);
}

TEST(DeviceCountTest, CpuIsLoweredByMaskAndQuotaWithANote) {
  EXPECT_THAT(Count("cpu", {.online_cpus = 8, .affinity_cpus = 8})->notes, IsEmpty());
  const auto masked = Count("cpu", {.online_cpus = 8, .affinity_cpus = 4});
  EXPECT_EQ(masked->count, 4);
  EXPECT_THAT(masked->notes,
              ElementsAre(HasSubstr("4 of 8 processors are used: the affinity mask")));
  const auto quota = Count("cpu", {.online_cpus = 8, .affinity_cpus = 4, .quota_cpus = 1.5});
  EXPECT_EQ(quota->count, 2);
  EXPECT_THAT(quota->notes, ElementsAre(HasSubstr("CPU quota of 1.5")));
}

TEST(DeviceCountTest, NumbersAreTakenLiterally) {
  EXPECT_EQ(Count("3", {})->count, 3);
  for (const char* bad : {"0", "-1", "1.5", "x", "", "5000"}) {
    EXPECT_THAT(Count(bad, {}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("gpu, cpu, xpu, auto")))
        << bad;
  }
}

class MachineProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("lr_machine_probe_" + RandomId());
    std::filesystem::create_directories(root_);
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_;
};

TEST_F(MachineProbeTest, CountsDeviceFilesOfEachVendor) {
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "kfd"}) {
    Write(std::string("dev/") + name, "");
  }
  Write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
  Write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51234\n");
  Write("sys/class/drm/renderD128/device/vendor", "0x8086\n");
  Write("sys/class/drm/card0/device/vendor", "0x8086\n");
  const MachineFacts facts = ProbeMachine(root_);
  EXPECT_EQ(facts.nvidia_devices, 2);
  EXPECT_EQ(facts.amd_devices, 1);
  EXPECT_EQ(facts.intel_devices, 1);
  EXPECT_GE(facts.affinity_cpus, 1);
}

TEST_F(MachineProbeTest, TightestQuotaOnTheWayToTheRootCounts) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  EXPECT_DOUBLE_EQ(ProbeMachine(root_).quota_cpus, 2.5);
}

TEST_F(MachineProbeTest, EmptyMachineHasNothing) {
  const MachineFacts facts = ProbeMachine(root_);
  EXPECT_EQ(facts.nvidia_devices + facts.amd_devices + facts.intel_devices, 0);
  EXPECT_DOUBLE_EQ(facts.quota_cpus, 0.0);
}

TEST(RandomIdTest, IsLongAndNeverTheSame) {
  EXPECT_EQ(RandomId().size(), 32);
  EXPECT_NE(RandomId(), RandomId());
}

}  // namespace
}  // namespace lr::launcher
