// What becomes of the environments in tests/data/launcher/scheduler, through the whole planner.
#include "launcher/cli/scheduler_planner.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/launch_planner.h"
#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kInvalid = StatusCode::kInvalidArgument;

using Environment = std::map<std::string, std::string>;

Environment Load(const std::string& name, const Environment& more = {}) {
  std::ifstream file(std::string(LR_TEST_DATA) + "/launcher/scheduler/" + name + ".env");
  EXPECT_TRUE(file) << name;
  Environment variables = more;
  for (std::string line; std::getline(file, line);) {
    variables.emplace(line.substr(0, line.find('=')), line.substr(line.find('=') + 1));
  }
  return variables;
}

Result<LaunchPlan> PlanOf(std::vector<std::string> options,
                          Environment variables,
                          const std::string& full_host_name = "act-3.robots.svc.cluster.local") {
  options.emplace_back("p");
  const EnvironmentReader environment = MapEnvironment(std::move(variables));
  const Result<CommandLine> line = ParseCommandLine(options, environment);
  if (!line.ok()) {
    return line.status();
  }
  return PlanLaunch(*line,
                    {},
                    {.machine = {},
                     .topology = {},
                     .full_host_name = [=] { return full_host_name; },
                     .environment = environment,
                     .random_id = "0123456789abcdef"});
}

std::string Source(const LaunchPlan& plan, const std::string& name) {
  for (const ResolvedOption& option : plan.options) {
    if (option.name == name) {
      return option.source == ValueSource::kEnvironment ? option.variable
             : option.source == ValueSource::kDefault   ? "default"
                                                        : "command line";
    }
  }
  return "no such option";
}

TEST(SchedulerPlannerTest, OneTaskPerNodeNeedsNoOptionAtAll) {
  const auto plan = PlanOf({"--nproc-per-node=8"}, Load("slurm_one_task_per_node"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->max_nodes, 4);
  EXPECT_EQ(plan->min_nodes, 4);
  EXPECT_EQ(plan->node_rank, 1);
  EXPECT_EQ(plan->endpoint.host, "gpu01");
  EXPECT_EQ(plan->endpoint.worker_port, 29500);
  EXPECT_EQ(plan->run_id, "slurm-8812.0");
  EXPECT_EQ(Source(*plan, "--nnodes"), "SLURM_STEP_NUM_NODES");
  EXPECT_EQ(Source(*plan, "--node-rank"), "SLURM_NODEID");
  EXPECT_EQ(Source(*plan, "--rdzv-endpoint"), "SLURM_STEP_NODELIST");
  EXPECT_EQ(Source(*plan, "--rdzv-id"), "SLURM_JOB_ID");
  EXPECT_EQ(Source(*plan, "--nproc-per-node"), "command line");
  EXPECT_EQ(plan->scheduler,
            "Slurm step 8812.0: task 1 of 4 on 4 machines, restart 2, ends 2026-03-02T10:11:12Z");
  EXPECT_THAT(plan->notes,
              Contains(AllOf(HasSubstr("Slurm step 8812.0: --nnodes=4 (SLURM_STEP_NUM_NODES)"),
                             HasSubstr("--node-rank=1 (SLURM_NODEID)"))));
}

TEST(SchedulerPlannerTest, WhatIsGivenWins) {
  const auto plan =
      PlanOf({"--nnodes=4", "--node-rank=3", "--rdzv-endpoint=head:1234", "--rdzv-id=mine"},
             Load("slurm_one_task_per_node"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->node_rank, 3);
  EXPECT_EQ(plan->endpoint.host, "head");
  EXPECT_EQ(plan->endpoint.worker_port, 1234);
  EXPECT_EQ(plan->run_id, "mine");
  EXPECT_EQ(Source(*plan, "--node-rank"), "command line");
  EXPECT_THAT(plan->notes, Not(Contains(HasSubstr("Slurm"))));
  const auto variables = PlanOf(
      {}, Load("slurm_one_task_per_node", {{"PET_NODE_RANK", "2"}, {"PET_MASTER_ADDR", "m"}}));
  ASSERT_THAT(variables, IsOk());
  EXPECT_EQ(variables->node_rank, 2);
  EXPECT_EQ(variables->endpoint.host, "m");
  EXPECT_EQ(Source(*variables, "--node-rank"), "PET_NODE_RANK");
}

TEST(SchedulerPlannerTest, OneNodeIsOneNode) {
  for (const char* option : {"--standalone", "--nnodes=1"}) {
    const auto plan = PlanOf({option}, Load("slurm_one_task_per_node"));
    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(plan->max_nodes, 1);
    EXPECT_TRUE(plan->endpoint.standalone);
    EXPECT_EQ(plan->node_rank, std::nullopt);
    EXPECT_EQ(plan->run_id, "0123456789ab");
    EXPECT_THAT(plan->notes, IsEmpty());
  }
}

TEST(SchedulerPlannerTest, WhereRanksAreAgreedOnTheSchedulersNumbersGiveTheOrder) {
  const auto plan =
      PlanOf({"--rdzv-backend=c10d", "--nnodes=2:4"}, Load("slurm_one_task_per_node"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->node_rank, std::nullopt);
  EXPECT_EQ(plan->scheduler_index, 1);
  EXPECT_EQ(plan->min_nodes, 2);
  EXPECT_EQ(plan->endpoint.host, "gpu01");
}

TEST(SchedulerPlannerTest, OneLauncherPerTaskIsRefusedUnlessItIsMeant) {
  const Environment tasks = Load("slurm_four_tasks_per_node");
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {}, {"--nnodes=2"}, {"--nnodes=1:2", "--rdzv-backend=c10d"}}) {
    EXPECT_THAT(PlanOf(options, tasks),
                StatusIs(kInvalid,
                         AllOf(HasSubstr("Slurm step 8812.0 runs 8 tasks on 2 machines"),
                               HasSubstr("started 4 times on each"),
                               HasSubstr("srun --ntasks-per-node=1"),
                               HasSubstr("--nnodes=8"))));
  }
  const auto plan = PlanOf({"--nnodes=8"}, tasks);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->node_rank, 5);
  EXPECT_EQ(Source(*plan, "--node-rank"), "SLURM_PROCID");
  EXPECT_EQ(plan->endpoint.host, "gpu01");
  EXPECT_THAT(PlanOf({"--standalone"}, tasks), IsOk());
}

TEST(SchedulerPlannerTest, MoreLaunchersThanNodesAreRefusedWhereRanksBind) {
  const Environment second = Load("slurm_one_task_per_node", {{"SLURM_NODEID", "3"}});
  EXPECT_THAT(
      PlanOf({"--nnodes=3"}, second),
      StatusIs(kInvalid, AllOf(HasSubstr("number 3 (SLURM_NODEID)"), HasSubstr("has 3 nodes"))));
  EXPECT_THAT(PlanOf({"--nnodes=1:3", "--rdzv-backend=c10d"}, second), IsOk());  // a spare
}

/// A loop of srun, one step per node: they share the job, and each counts from 0.
TEST(SchedulerPlannerTest, StepsOfOneNodeEachShareTheJob) {
  const Environment step = Load("slurm_step_per_node");
  const auto plan = PlanOf({"--nnodes=4", "--node-rank=2", "--rdzv-endpoint=gpu01"}, step);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->run_id, "slurm-8812");
  EXPECT_EQ(plan->node_rank, 2);
  EXPECT_THAT(PlanOf({"--nnodes=4"}, step), StatusIs(kInvalid, HasSubstr("a place to meet")));
  EXPECT_EQ(PlanOf({}, step)->max_nodes, 1);
}

TEST(SchedulerPlannerTest, ShellsAndScriptsAreNoTasks) {
  for (const char* name :
       {"slurm_batch_script", "slurm_pty_shell", "slurm_interactive_step", "slurm_salloc_shell"}) {
    const auto plan = PlanOf({}, Load(name));
    ASSERT_THAT(plan, IsOk()) << name;
    EXPECT_EQ(plan->max_nodes, 1) << name;
    EXPECT_EQ(plan->run_id, "0123456789ab") << name;
    EXPECT_THAT(plan->notes, Contains(HasSubstr("so it is the only one"))) << name;
    const auto several = PlanOf({"--nnodes=2", "--node-rank=0", "--rdzv-endpoint=a"}, Load(name));
    ASSERT_THAT(several, IsOk()) << name;
    EXPECT_EQ(several->run_id,
              std::string(name) == "slurm_salloc_shell" ? "slurm-8813" : "slurm-8812");
  }
}

TEST(SchedulerPlannerTest, APodOfAnIndexedJobFindsItsPlaceByItsName) {
  const Environment pod = Load("kubernetes_indexed_job");
  const auto plan = PlanOf({"--nnodes=4"}, pod);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->node_rank, 3);
  EXPECT_EQ(plan->endpoint.host, "act-0.robots.svc.cluster.local");
  EXPECT_EQ(plan->run_id, "k8s-act");
  EXPECT_EQ(Source(*plan, "--node-rank"), "JOB_COMPLETION_INDEX");
  EXPECT_EQ(plan->scheduler, "Kubernetes job act: pod 3");
  EXPECT_EQ(PlanOf({"--nnodes=2:4", "--rdzv-backend=c10d"}, pod)->scheduler_index, 3);
  EXPECT_TRUE(PlanOf({}, pod)->endpoint.standalone);  // every index a run of its own
  EXPECT_THAT(PlanOf({"--nnodes=3"}, pod),
              StatusIs(kInvalid, HasSubstr("number 3 (JOB_COMPLETION_INDEX)")));
}

TEST(SchedulerPlannerTest, WithoutAServiceAPodHasNoPlaceToMeet) {
  const Environment pod = Load("kubernetes_indexed_job");
  for (const char* name : {"act-3", "something.else", "-3.svc", ""}) {
    EXPECT_THAT(PlanOf({"--nnodes=4"}, pod, name), StatusIs(kInvalid, HasSubstr("a place to meet")))
        << name;
  }
}

TEST(SchedulerPlannerTest, KubeflowsVariablesAreHonouredAsTheyAre) {
  const auto plan =
      PlanOf({}, Load("kubeflow_trainer"), "act-node-0-3.act.robots.svc.cluster.local");
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->max_nodes, 4);
  EXPECT_EQ(plan->node_rank, 3);
  EXPECT_EQ(plan->endpoint.host, "act-node-0-0.act");
  EXPECT_EQ(plan->endpoint.worker_port, 29400);
  EXPECT_EQ(Source(*plan, "--node-rank"), "PET_NODE_RANK");
}

TEST(SchedulerPlannerTest, AccelerateTakesTheMachineRankFromTheScheduler) {
  const auto plan =
      PlanOf({"--num_machines=4", "--num_processes=32"}, Load("slurm_one_task_per_node"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->node_rank, 1);
  EXPECT_EQ(plan->local_size, 8);
}

TEST(SchedulerPlannerTest, UnreadableVariablesAreNamed) {
  const auto with = [](const char* name, const char* value) {
    return PlanOf({}, Load("slurm_one_task_per_node", {{name, value}}));
  };
  EXPECT_THAT(with("SLURM_NODEID", "x"), StatusIs(kInvalid, HasSubstr("SLURM_NODEID=x")));
  EXPECT_THAT(with("SLURM_STEP_NODELIST", "gpu[1"),
              StatusIs(kInvalid, HasSubstr("SLURM_STEP_NODELIST: ")));
  EXPECT_THAT(with("SLURM_JOB_END_TIME", "tomorrow"),
              StatusIs(kInvalid, HasSubstr("SLURM_JOB_END_TIME=tomorrow")));
  EXPECT_EQ(with("SLURM_HET_SIZE", "2")->max_nodes, 1);
}

}  // namespace
}  // namespace lr::launcher
