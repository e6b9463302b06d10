#include "launcher/cli/numa_binding.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/machine_probe.h"
#include "launcher/cli/topology_probe.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Cpus = std::vector<std::vector<int>>;

/// Two sockets of two NUMA nodes each; per node two cores of two threads, each core its own cache.
CpuTopology FourNodes() {
  CpuTopology topology{.cpus = {}, .device_nodes = {0, 0, 1, 3}};
  for (int id = 0; id < 16; ++id) {
    const int core = id % 8;
    topology.cpus.push_back(
        {.id = id, .core = core, .cache = core, .socket = core / 4, .node = core / 2});
  }
  return topology;
}

Cpus Choose(const std::string& mode, const std::vector<int>& devices) {
  const auto binding = ChooseCpus(mode, FourNodes(), devices);
  EXPECT_THAT(binding, IsOk());
  return binding.ok() ? binding->cpus : Cpus();
}

TEST(ChooseCpusTest, NodeAndSocket) {
  EXPECT_EQ(Choose("node", {0, 3}), (Cpus{{0, 1, 8, 9}, {6, 7, 14, 15}}));
  EXPECT_EQ(Choose("socket", {2, 3}),
            (Cpus{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}));
}

TEST(ChooseCpusTest, ExclusiveDividesTheCoresOfANode) {
  EXPECT_EQ(Choose("exclusive", {0, 1, 2}), (Cpus{{0, 8}, {1, 9}, {2, 3, 10, 11}}));
  EXPECT_THAT(ChooseCpus("exclusive", FourNodes(), {0, 0, 1}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("NUMA node 0 has 2 usable core(s) for 3 workers")));
}

TEST(ChooseCpusTest, TheFirstWorkersGetTheCoresThatAreLeftOver) {
  CpuTopology topology{.cpus = {}, .device_nodes = {0, 0}};
  for (int id = 0; id < 5; ++id) {
    topology.cpus.push_back({.id = id, .core = id});
  }
  EXPECT_EQ(ChooseCpus("exclusive", topology, {0, 1})->cpus, (Cpus{{0, 1, 2}, {3, 4}}));
}

TEST(ChooseCpusTest, CoreComplexesAreDealtOutLargestFirst) {
  EXPECT_EQ(Choose("core-complex", {0, 1, 0}), (Cpus{{0, 8}, {1, 9}, {0, 8}}));
  CpuTopology topology = FourNodes();
  std::erase_if(topology.cpus, [](const LogicalCpu& cpu) { return cpu.id == 8; });
  EXPECT_EQ(ChooseCpus("core-complex", topology, {0})->cpus, (Cpus{{1, 9}}));
}

TEST(ChooseCpusTest, ProcessorsOutsideTheMaskAreNotChosen) {
  CpuTopology topology = FourNodes();
  std::erase_if(topology.cpus, [](const LogicalCpu& cpu) { return cpu.node == 3; });
  EXPECT_THAT(ChooseCpus("node", topology, {3}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("GPU 3 is on NUMA node 3, none")));
  EXPECT_THAT(ChooseCpus("node", {}, {-1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("does not tell")));
}

TEST(CpuListTextTest, WritesRanges) {
  EXPECT_EQ(CpuListText({}), "");
  EXPECT_EQ(CpuListText({4}), "4");
  EXPECT_EQ(CpuListText({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
}

class TopologyProbeTest : public ::testing::Test {
 protected:
  void SetUp() override { root_ = fs::temp_directory_path() / ("lr_topology_" + RandomId()); }

  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  void WriteCpu(int id, const std::string& siblings, int socket) {
    const std::string cpu = "sys/devices/system/cpu/cpu" + std::to_string(id);
    Write(cpu + "/topology/thread_siblings_list", siblings);
    Write(cpu + "/topology/physical_package_id", std::to_string(socket));
    Write(cpu + "/cache/index0/level", "1");
    Write(cpu + "/cache/index0/shared_cpu_list", siblings);
    Write(cpu + "/cache/index3/level", "3");
    Write(cpu + "/cache/index3/shared_cpu_list", socket == 0 ? "0,2" : "1,3");
  }

  void WriteGpu(const std::string& address, const std::string& vendor, const std::string& node) {
    const std::string device = "sys/bus/pci/devices/" + address;
    Write(device + "/class", "0x030200");
    Write(device + "/vendor", vendor);
    Write(device + "/numa_node", node);
  }

  fs::path root_;
};

TEST_F(TopologyProbeTest, ReadsSysfs) {
  for (int id = 0; id < 4; ++id) {
    WriteCpu(id, id % 2 == 0 ? "0,2" : "1,3", id % 2);
  }
  Write("sys/devices/system/node/node0/cpulist", "0,2");
  Write("sys/devices/system/node/node1/cpulist", "1,3");
  WriteGpu("0000:c1:00.0", "0x10de", "1");
  WriteGpu("0000:41:00.0", "0x10de", "-1");
  WriteGpu("0000:02:00.0", "0x1a03", "0");  // the board's own graphics
  const CpuTopology topology = ProbeTopology(root_, {1, 2, 3});
  ASSERT_EQ(topology.cpus.size(), 3U);
  const LogicalCpu& last = topology.cpus[2];
  EXPECT_EQ(last.id, 3);
  EXPECT_EQ(last.core, 1);
  EXPECT_EQ(last.cache, 1);
  EXPECT_EQ(last.socket, 1);
  EXPECT_EQ(last.node, 1);
  EXPECT_THAT(topology.device_nodes, ElementsAre(0, 1));
  EXPECT_EQ(CountCores(topology, {}), 2);
}

TEST_F(TopologyProbeTest, TheDriversListOfAContainerCounts) {
  WriteGpu("0000:41:00.0", "0x10de", "0");
  WriteGpu("0000:c1:00.0", "0x10de", "1");
  Write("proc/driver/nvidia/gpus/0000:c1:00.0/information", "Model: any");
  EXPECT_THAT(ProbeTopology(root_, {}).device_nodes, ElementsAre(1));
}

TEST_F(TopologyProbeTest, WhatIsMissingCountsAsOneNode) {
  Write("sys/devices/system/node/node0/cpulist", "garbage");
  const CpuTopology topology = ProbeTopology(root_, {0, 1});
  EXPECT_EQ(CountCores(topology, {}), 2);
  EXPECT_EQ(topology.cpus[1].node, 0);
}

TEST(AllowedCpusTest, ThisProcessMayUseSome) {
  EXPECT_FALSE(AllowedCpus().empty());
}

}  // namespace
}  // namespace lr::launcher
