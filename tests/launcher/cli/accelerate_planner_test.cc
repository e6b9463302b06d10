#include "launcher/cli/accelerate_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = StatusCode::kInvalidArgument;

struct Node {
  MachineFacts machine = {.online_cpus = 8, .affinity_cpus = 8};
  std::map<std::string, std::string> variables = {};
  Dialect dialect = Dialect::kAccelerate;
};

Result<LaunchPlan> PlanOf(std::vector<std::string> options, const Node& node = {}) {
  options.emplace_back("p");
  const EnvironmentReader environment = MapEnvironment(node.variables);
  const Result<CommandLine> line = ParseCommandLine(options, environment, node.dialect);
  if (!line.ok()) {
    return line.status();
  }
  ProgramPlan program;
  program.given = "p";
  CpuTopology topology;
  for (int id = 0; id < node.machine.online_cpus; ++id) {
    topology.cpus.push_back({.id = id, .core = id});
  }
  return PlanLaunch(*line,
                    program,
                    {.machine = node.machine,
                     .topology = [&] { return topology; },
                     .environment = environment,
                     .random_id = "0123456789abcdef"});
}

std::string Variable(const Result<LaunchPlan>& plan, size_t worker, const std::string& name) {
  const auto& variables = plan->placements.at(worker).variables;
  const auto found = variables.find(name);
  return found == variables.end() ? "(unset)" : found->second;
}

TEST(AcceleratePlanTest, ProcessesAreATotal) {
  const auto plan = PlanOf(
      {"--num_machines=2", "--num_processes=4", "--machine_rank=1", "--main_process_ip=gpu01"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->max_nodes, 2);
  EXPECT_EQ(plan->local_size, 2);
  EXPECT_EQ(plan->node_rank, 1);
  EXPECT_EQ(plan->endpoint.host, "gpu01");
  EXPECT_THAT(
      PlanOf({"--num_machines=2", "--num_processes=3", "--machine_rank=0", "--main_process_ip=a"}),
      StatusIs(
          kInvalid,
          AllOf(HasSubstr("--num_processes=3"), HasSubstr("3 / 2 machines = 1, 1 left over"))));
  EXPECT_EQ(PlanOf({"--num_processes=2"})->local_size, 2) << "also without devices";
}

TEST(AcceleratePlanTest, WithoutACountThereIsOnePerGpuOrOne) {
  EXPECT_EQ(PlanOf({})->local_size, 1);
  EXPECT_EQ(PlanOf({}, {.machine = {.nvidia_devices = 4}})->local_size, 4);
  EXPECT_EQ(PlanOf({"--cpu"}, {.machine = {.nvidia_devices = 4}})->local_size, 1);
  EXPECT_EQ(PlanOf({"--gpu_ids=2,3"}, {.machine = {.nvidia_devices = 4}})->local_size, 2);
  EXPECT_EQ(PlanOf({"--gpu_ids=all"}, {.machine = {.nvidia_devices = 4}})->local_size, 4);
  EXPECT_THAT(PlanOf({"--multi_gpu"}),
              StatusIs(kInvalid, HasSubstr("--multi_gpu: this node has no GPU")));
  EXPECT_EQ(
      PlanOf({}, {.machine = {.nvidia_devices = 4}, .dialect = Dialect::kTorchrun})->local_size, 1);
}

TEST(AcceleratePlanTest, AddressHasItsOwnNames) {
  const auto both = PlanOf({"--num_machines=2",
                            "--num_processes=2",
                            "--machine_rank=0",
                            "--main_process_ip=fe80::1",
                            "--main_process_port=1234"});
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ(both->endpoint.host, "fe80::1");
  EXPECT_EQ(both->endpoint.worker_port, 1234);
  EXPECT_TRUE(both->endpoint.worker_port_explicit);
  EXPECT_EQ(PlanOf({"--main_process_port=1234"})->endpoint.worker_port, 1234);
  EXPECT_EQ(PlanOf({"--main_process_port=0"})->endpoint.worker_port, 0);
  EXPECT_THAT(
      PlanOf(
          {"--num_machines=2", "--num_processes=2", "--machine_rank=0", "--main_process_port=5"}),
      StatusIs(kInvalid, HasSubstr("--main-process-ip is missing")));
  EXPECT_THAT(PlanOf({"--main_process_ip=a:5"}),
              StatusIs(kInvalid, HasSubstr("the port is --main-process-port")));
  EXPECT_THAT(PlanOf({"--main_process_port=x"}),
              StatusIs(kInvalid, HasSubstr("--main_process_port=x")));
}

TEST(AcceleratePlanTest, SeveralMachinesNeedTheirRank) {
  const std::vector<std::string> options = {
      "--num_machines=2", "--num_processes=2", "--main_process_ip=a", "--main_process_port=5"};
  EXPECT_THAT(PlanOf(options),
              StatusIs(kInvalid, HasSubstr("--num_machines=2: --machine-rank is missing")));
  EXPECT_EQ(PlanOf(options, {.variables = {{"PET_NODE_RANK", "1"}}})->node_rank, 1);
  std::vector<std::string> c10d = options;
  c10d.emplace_back("--rdzv_backend=c10d");
  EXPECT_THAT(PlanOf(c10d), IsOk());
}

TEST(AcceleratePlanTest, DevicesOfTheWorkers) {
  const Node gpus = {.machine = {.nvidia_devices = 4}};
  EXPECT_EQ(Variable(PlanOf({"--gpu_ids=2,3"}, gpus), 1, "CUDA_VISIBLE_DEVICES"), "2,3");
  EXPECT_EQ(
      Variable(
          PlanOf({"--gpu_ids=2,3"}, {.machine = {.amd_devices = 4}}), 0, "HIP_VISIBLE_DEVICES"),
      "2,3");
  EXPECT_EQ(
      Variable(PlanOf({"--gpu_ids=2,3", "--virtual-local-rank"}, gpus), 1, "CUDA_VISIBLE_DEVICES"),
      "3");
  EXPECT_EQ(Variable(PlanOf({"--cpu", "--num_processes=2"}, gpus), 1, "CUDA_VISIBLE_DEVICES"),
            "-1");
  EXPECT_THAT(PlanOf({"--gpu_ids=0", "--num_processes=2"}, gpus),
              StatusIs(kInvalid, HasSubstr("--gpu_ids=0: 1 device(s) for 2 workers")));
  EXPECT_THAT(PlanOf({"--gpu_ids="}, gpus), StatusIs(kInvalid, HasSubstr("--gpu_ids=")));
}

TEST(AcceleratePlanTest, ThreadsAreAlwaysExported) {
  EXPECT_EQ(Variable(PlanOf({}), 0, "OMP_NUM_THREADS"), "1");
  EXPECT_EQ(Variable(PlanOf({"--num_cpu_threads_per_process=3"}), 0, "OMP_NUM_THREADS"), "3");
  EXPECT_EQ(Variable(PlanOf({"--cpu", "--num_processes=2"}), 0, "OMP_NUM_THREADS"), "4");
  EXPECT_EQ(Variable(PlanOf({}, {.variables = {{"OMP_NUM_THREADS", "6"}}}), 0, "OMP_NUM_THREADS"),
            "(unset)")
      << "the inherited value stays";
}

TEST(AcceleratePlanTest, SmallOnes) {
  EXPECT_TRUE(PlanOf({"-q"})->quiet);
  EXPECT_EQ(Variable(PlanOf({"--debug"}), 0, "ACCELERATE_DEBUG_MODE"), "true");
  EXPECT_THAT(PlanOf({"--same_network", "--tee=0", "--max_restarts=0", "--monitor_interval=5"}),
              IsOk());
  EXPECT_THAT(PlanOf({"--enable_cpu_affinity"}),
              StatusIs(kInvalid, HasSubstr("--enable_cpu_affinity: this node has no GPU")));
}

TEST(AcceleratePlanTest, OptionsOfBothToolsMixUntilTheyDisagree) {
  const Node torchrun = {.dialect = Dialect::kTorchrun};
  EXPECT_EQ(PlanOf({"--num_processes=4", "--role=x"}, torchrun)->local_size, 4);
  EXPECT_THAT(
      PlanOf({"--num_processes=4", "--nproc-per-node=4"}, torchrun),
      StatusIs(kInvalid, HasSubstr("--num_processes=4 and --nproc-per-node=4 exclude each other")));
  EXPECT_THAT(PlanOf({"--main_process_ip=a", "--master-addr=a"}),
              StatusIs(kInvalid, HasSubstr("exclude each other")));
  EXPECT_EQ(PlanOf({"--num_processes=4"}, {.variables = {{"PET_NPROC_PER_NODE", "8"}}})->local_size,
            4)
      << "the command line wins over a variable";
  EXPECT_THAT(PlanOf({"--cpu", "--multi_gpu"}), StatusIs(kInvalid, HasSubstr("--multi_gpu")));
}

TEST(AccelerateDialectTest, AbbreviationsAreTorchrunsOnly) {
  const Node torchrun = {.dialect = Dialect::kTorchrun};
  EXPECT_THAT(PlanOf({"--nproc=2"}, torchrun), IsOk());
  EXPECT_THAT(PlanOf({"--nproc=2", "--dialect=accelerate"}, torchrun),
              StatusIs(kInvalid, HasSubstr("write --nproc-per-node")));
  EXPECT_THAT(PlanOf({"--nproc=2"}), StatusIs(kInvalid, HasSubstr("write --nproc-per-node")));
  EXPECT_THAT(PlanOf({"--num_proc=2"}, torchrun),
              StatusIs(kInvalid, HasSubstr("unknown option --num_proc")));
  EXPECT_THAT(PlanOf({"--num_proceses=2"}),
              StatusIs(kInvalid, HasSubstr("did you mean --num-processes?")));
  EXPECT_THAT(PlanOf({"--dialect=mpi"}), StatusIs(kInvalid, HasSubstr("torchrun, accelerate")));
}

}  // namespace
}  // namespace lr::launcher
