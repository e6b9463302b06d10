#include "launcher/cli/placement_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr auto kInvalid = StatusCode::kInvalidArgument;

struct Node {
  int workers = 2;
  MachineFacts machine = {};
  std::map<std::string, std::string> variables = {};
  CpuTopology topology = {};
};

/// `nodes` sockets of one node each with `cores` cores of two threads, numbered as Linux does.
CpuTopology Machine(int nodes, int cores, std::vector<int> device_nodes = {}) {
  CpuTopology topology{.cpus = {}, .device_nodes = std::move(device_nodes)};
  const int all_cores = nodes * cores;
  for (int id = 0; id < 2 * all_cores; ++id) {
    const int core = id % all_cores;
    const int node = core / cores;
    topology.cpus.push_back({.id = id, .core = core, .cache = node, .socket = node, .node = node});
  }
  return topology;
}

Result<PlacementPlan> Plan(std::vector<std::string> options, const Node& node) {
  options.emplace_back("p");
  const EnvironmentReader environment = MapEnvironment(node.variables);
  const Result<CommandLine> line = ParseCommandLine(options, environment);
  if (!line.ok()) {
    return line.status();
  }
  return PlanPlacement(*line,
                       node.workers,
                       {.machine = node.machine,
                        .topology = [&] { return node.topology; },
                        .environment = environment,
                        .random_id = ""});
}

TEST(PlacementTest, NothingIsSetUnlessAsked) {
  const auto plan = Plan({}, {.workers = 2});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->workers.size(), 2U);
  EXPECT_THAT(plan->workers[1].variables, IsEmpty());
}

TEST(PlacementTest, VirtualRanksSeeOneDeviceEach) {
  const auto plain = Plan({"--virtual-local-rank"}, {.machine = {.nvidia_devices = 2}});
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(plain->workers[1].variables,
              UnorderedElementsAre(Pair("LOCAL_RANK", "0"), Pair("CUDA_VISIBLE_DEVICES", "1")));
  const auto mapped =
      Plan({"--virtual-local-rank"},
           {.machine = {.nvidia_devices = 8}, .variables = {{"CUDA_VISIBLE_DEVICES", "5, 7"}}});
  ASSERT_THAT(mapped, IsOk());
  EXPECT_EQ(mapped->workers[1].variables.at("CUDA_VISIBLE_DEVICES"), "7");
}

TEST(PlacementTest, VirtualRanksUseTheVendorsVariable) {
  const MachineFacts amd = {.amd_devices = 4};
  const auto by_cuda = Plan({"--virtual-local-rank"},
                            {.machine = amd, .variables = {{"CUDA_VISIBLE_DEVICES", "2,3"}}});
  ASSERT_THAT(by_cuda, IsOk());
  EXPECT_EQ(by_cuda->workers[0].variables.at("HIP_VISIBLE_DEVICES"), "2");
  const auto by_rocr = Plan({"--virtual-local-rank"},
                            {.machine = amd, .variables = {{"ROCR_VISIBLE_DEVICES", "2,3"}}});
  ASSERT_THAT(by_rocr, IsOk());
  EXPECT_EQ(by_rocr->workers[1].variables.at("HIP_VISIBLE_DEVICES"), "1");
  const auto intel = Plan({"--virtual-local-rank"}, {.machine = {.intel_devices = 2}});
  EXPECT_EQ(intel->workers[1].variables.at("ZE_AFFINITY_MASK"), "1");
}

TEST(PlacementTest, VirtualRanksNeedADeviceEach) {
  EXPECT_THAT(
      Plan({"--virtual-local-rank"},
           {.machine = {.nvidia_devices = 8}, .variables = {{"CUDA_VISIBLE_DEVICES", "5"}}}),
      StatusIs(kInvalid, HasSubstr("CUDA_VISIBLE_DEVICES lists 1 device(s)")));
  EXPECT_THAT(
      Plan({}, {.machine = {.nvidia_devices = 1}, .variables = {{"PET_VIRTUAL_LOCAL_RANK", "1"}}}),
      StatusIs(kInvalid, HasSubstr("PET_VIRTUAL_LOCAL_RANK=1: this node has 1 device(s)")));
  EXPECT_THAT(Plan({"--virtual-local-rank"}, {}), IsOk()) << "no device: nothing to run out of";
}

TEST(PlacementTest, Threads) {
  const MachineFacts machine = {.online_cpus = 8, .affinity_cpus = 7};
  const auto fixed = Plan({"--omp-threads=5"}, {.machine = machine});
  ASSERT_THAT(fixed, IsOk());
  EXPECT_EQ(fixed->workers[1].variables.at("OMP_NUM_THREADS"), "5");
  const auto own = Plan({"--omp-threads=auto"}, {.machine = machine, .topology = Machine(1, 8)});
  EXPECT_EQ(own->workers[0].variables.at("OMP_NUM_THREADS"), "3");
  const auto crowded =
      Plan({"--omp-threads=auto"}, {.workers = 20, .machine = machine, .topology = Machine(1, 8)});
  EXPECT_EQ(crowded->workers[0].variables.at("OMP_NUM_THREADS"), "1");
  for (const char* bad : {"--omp-threads=0", "--omp-threads=many", "--omp-threads="}) {
    EXPECT_THAT(Plan({bad}, {}), StatusIs(kInvalid, HasSubstr(bad)));
  }
}

TEST(PlacementTest, BindingFollowsTheVisibleDevices) {
  const Node node = {.machine = {.nvidia_devices = 4},
                     .variables = {{"CUDA_VISIBLE_DEVICES", "3,0"}},
                     .topology = Machine(2, 2, {0, 0, 1, 1})};
  const auto plan = Plan({"--numa-binding=node", "--omp-threads=auto"}, node);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->workers[0].cpus, ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(plan->workers[1].cpus, ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(plan->workers[1].variables.at("OMP_NUM_THREADS"), "2") << "cores, not threads";
  EXPECT_THAT(
      plan->notes,
      ElementsAre("local rank 0 runs on CPUs 2-3,6-7 (node of NUMA node 1, where GPU 3 is)",
                  "local rank 1 runs on CPUs 0-1,4-5 (node of NUMA node 0, where GPU 0 is)"));
}

TEST(PlacementTest, BindingWithoutGpusIsAskedFor) {
  EXPECT_THAT(Plan({"--numa-binding=node"}, {.topology = Machine(2, 2)}),
              StatusIs(kInvalid, HasSubstr("--numa-binding-cpu binds by local rank")));
  const auto plan = Plan({"--numa-binding=node", "--numa-binding-cpu"},
                         {.workers = 3, .topology = Machine(2, 1)});
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->workers[1].cpus, ElementsAre(1, 3));
  EXPECT_THAT(plan->workers[2].cpus, ElementsAre(0, 2));
  EXPECT_THAT(Plan({"--numa-binding-cpu"}, {}),
              StatusIs(kInvalid, HasSubstr("needs --numa-binding=")));
}

TEST(PlacementTest, BindingNamesWhatItCannotFollow) {
  const MachineFacts gpus = {.nvidia_devices = 4};
  EXPECT_THAT(Plan({"--numa-binding=numa"}, {.machine = gpus}),
              StatusIs(kInvalid, HasSubstr("core-complex")));
  EXPECT_THAT(Plan({"--numa-binding=node"},
                   {.machine = gpus, .variables = {{"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"}}}),
              StatusIs(kInvalid, HasSubstr("names 'GPU-a'")));
  EXPECT_THAT(Plan({"--numa-binding=node"}, {.machine = gpus, .topology = Machine(1, 1, {0})}),
              StatusIs(kInvalid, HasSubstr("NUMA node of GPU 1 is not known (1 found)")));
}

}  // namespace
}  // namespace lr::launcher
