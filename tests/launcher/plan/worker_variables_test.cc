#include "launcher/plan/worker_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LaunchPlan Plan() {
  LaunchPlan plan;
  plan.local_size = 2;
  plan.max_nodes = 2;
  plan.signals_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  return plan;
}

Assignment TwoNodes() {
  Assignment assignment;
  assignment.run_id = "job7";
  assignment.epoch = 3;
  assignment.restart_count = 1;
  assignment.nodes = {{.node_id = "a",
                       .host_name = "h0",
                       .address = "10.0.0.1",
                       .node_rank = 0,
                       .local_size = 3,
                       .first_rank = 0},
                      {.node_id = "b",
                       .host_name = "h1",
                       .address = "10.0.0.2",
                       .node_rank = 1,
                       .local_size = 2,
                       .first_rank = 3}};
  assignment.world_size = 5;
  assignment.master_addr = "10.0.0.1";
  assignment.master_port = 29500;
  return assignment;
}

Variables Of(const Variables& inherited) {
  return WorkerVariables(
      inherited,
      Plan(),
      TwoNodes(),
      {.node_id = "b", .control_socket = "/s.sock", .attempt_dir = "/run/attempt_0"},
      1);
}

TEST(WorkerVariablesTest, GivesTorchrunsTable) {
  const Variables variables = Of({});
  const Variables expected = {{"RANK", "4"},
                              {"LOCAL_RANK", "1"},
                              {"WORLD_SIZE", "5"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"GROUP_RANK", "1"},
                              {"GROUP_WORLD_SIZE", "2"},
                              {"ROLE_NAME", "default"},
                              {"ROLE_RANK", "4"},
                              {"ROLE_WORLD_SIZE", "5"},
                              {"MASTER_ADDR", "10.0.0.1"},
                              {"MASTER_PORT", "29500"},
                              {"TORCHELASTIC_RESTART_COUNT", "1"},
                              {"TORCHELASTIC_MAX_RESTARTS", "0"},
                              {"TORCHELASTIC_RUN_ID", "job7"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                              {"TORCHELASTIC_ERROR_FILE", "/run/attempt_0/1/error.json"},
                              {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
                              {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                              {"OMP_NUM_THREADS", "1"},
                              {"LR_RUN_ID", "job7"},
                              {"LR_EPOCH", "3"},
                              {"LR_NODE_ID", "b"},
                              {"LR_CONTROL_SOCKET", "/s.sock"},
                              {"LR_ATTEMPT_DIR", "/run/attempt_0"},
                              {"LR_RESUME_FROM", ""}};
  EXPECT_EQ(variables, expected);
}

TEST(WorkerVariablesTest, InheritedValuesStayExceptThoseOfTheTable) {
  const Variables variables = Of({{"HOME", "/h"},
                                  {"PET_NNODES", "2"},
                                  {"RANK", "17"},
                                  {"OMP_NUM_THREADS", "8"},
                                  {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"},
                                  {"CUDA_VISIBLE_DEVICES", "1,2"}});
  EXPECT_EQ(variables.at("HOME"), "/h");
  EXPECT_EQ(variables.at("PET_NNODES"), "2");
  EXPECT_EQ(variables.at("RANK"), "4");
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "8");
  EXPECT_EQ(variables.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
  EXPECT_EQ(variables.at("CUDA_VISIBLE_DEVICES"), "1,2");
}

TEST(WorkerVariablesTest, OneWorkerPerNodeKeepsItsThreads) {
  LaunchPlan plan = Plan();
  plan.local_size = 1;
  EXPECT_FALSE(
      WorkerVariables(
          {}, plan, TwoNodes(), {.node_id = "a", .control_socket = "", .attempt_dir = ""}, 0)
          .contains("OMP_NUM_THREADS"));
  EXPECT_THAT(EnvironmentNotes({}, plan), IsEmpty());
}

TEST(WorkerVariablesTest, ThreadsAndDisagreeingRanksAreMentionedOnce) {
  EXPECT_THAT(EnvironmentNotes({}, Plan()), ElementsAre(HasSubstr("OMP_NUM_THREADS")));
  EXPECT_THAT(
      EnvironmentNotes({{"OMP_NUM_THREADS", "4"}, {"RANK", "1"}, {"WORLD_SIZE", "8"}}, Plan()),
      ElementsAre(HasSubstr("WORLD_SIZE=8 RANK=1")));
  EXPECT_THAT(EnvironmentNotes({{"OMP_NUM_THREADS", "4"}, {"WORLD_SIZE", "4"}}, Plan()), IsEmpty());
}

TEST(WorkerVariablesTest, LocalRankIsReplacedInArgumentsOnly) {
  ProgramPlan program;
  program.argv = {"/bin/$local_rank",
                  "--out=${local_rank}.log",
                  "$local_rank",
                  "$local_ranks",
                  "$HOME",
                  "a$local_rank$local_rank"};
  LaunchPlan plan;
  plan.program = program;
  EXPECT_THAT(WorkerArguments(plan, 3),
              ElementsAre("/bin/$local_rank", "--out=3.log", "3", "$local_ranks", "$HOME", "a33"));
}

TEST(WorkerArgumentsTest, LocalRankOptionComesBeforeTheProgramsOwn) {
  LaunchPlan plan;
  plan.program.argv = {"/bin/python3", "-u", "train.py", "--lr", "1"};
  plan.program.first_argument = 3;
  plan.local_rank_option = "--local_rank";
  EXPECT_THAT(WorkerArguments(plan, 1),
              ElementsAre("/bin/python3", "-u", "train.py", "--local_rank=1", "--lr", "1"));
}

TEST(WorkerVariablesTest, PlacementWinsOverEverything) {
  LaunchPlan plan = Plan();
  plan.placements = {{},
                     {.variables = {{"LOCAL_RANK", "0"}, {"OMP_NUM_THREADS", "6"}}, .cpus = {}}};
  const NodeFacts node = {.node_id = "b", .control_socket = "", .attempt_dir = "/a"};
  const Variables second = WorkerVariables({{"OMP_NUM_THREADS", "3"}}, plan, TwoNodes(), node, 1);
  EXPECT_EQ(second.at("LOCAL_RANK"), "0");
  EXPECT_EQ(second.at("OMP_NUM_THREADS"), "6");
  EXPECT_EQ(second.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(second.at("TORCHELASTIC_ERROR_FILE"), "/a/1/error.json");
  EXPECT_EQ(
      WorkerVariables({{"OMP_NUM_THREADS", "3"}}, plan, TwoNodes(), node, 0).at("OMP_NUM_THREADS"),
      "3");
  plan.placements = {{.variables = {{"OMP_NUM_THREADS", "6"}}, .cpus = {}}, {}};
  EXPECT_THAT(EnvironmentNotes({}, plan), IsEmpty());
}

}  // namespace
}  // namespace lr::launcher
