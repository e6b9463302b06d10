#include "launcher/cli/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/io/json.h"

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

LaunchPlan TwoWorkers() {
  LaunchPlan plan;
  plan.local_size = 2;
  plan.run_id = "abc";
  plan.endpoint.standalone = true;
  plan.program = {.given = "p",
                  .executable = "/bin/p",
                  .argv = {"p", "--out=${local_rank}", "--hub.api_key=s3cret", "--token", "s3cret"},
                  .native = false,
                  .kind = "executable"};
  plan.signals = {15, 2};
  plan.options = {{.name = "--nproc-per-node",
                   .value = "2",
                   .source = ValueSource::kEnvironment,
                   .variable = "PET_NPROC_PER_NODE"}};
  return plan;
}

TEST(DryRunTest, TextShowsSourcesPlanAndWorkersWithSecretsMasked) {
  EXPECT_THAT(DryRunText(TwoWorkers(), {{"MY_TOKEN", "s3cret"}}),
              AllOf(HasSubstr("PET_NPROC_PER_NODE"),
                    HasSubstr("one node; workers meet at this node, a free port"),
                    HasSubstr("worker 1: p --out=1 --hub.api_key=*** --token ***"),
                    HasSubstr("limits    last call 30 s (again 5 s), commit 10 s, heartbeat 1 s, "
                              "suspect 5 s, lost 15 s"),
                    HasSubstr("    rank 1 of 2\n"),
                    HasSubstr("    RANK=1\n"),
                    HasSubstr("    MASTER_PORT=<free>\n"),
                    HasSubstr("stop on   SIGTERM, SIGINT, killed after 30.0 s"),
                    HasSubstr("the 1 inherited variables"),
                    Not(HasSubstr("s3cret"))));
}

TEST(DryRunTest, JsonHoldsTheSame) {
  const std::string text = DryRunJson(TwoWorkers(), {{"MY_TOKEN", "s3cret"}, {"HOME", "/h"}});
  EXPECT_THAT(text, Not(HasSubstr("s3cret")));
  const auto json = ParseJson(text);
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ((*json)["options"]["--nproc-per-node"]["source"], "PET_NPROC_PER_NODE");
  EXPECT_EQ((*json)["inherited_environment"]["HOME"], "/h");
  EXPECT_EQ((*json)["inherited_environment"]["MY_TOKEN"], "***");
  EXPECT_EQ((*json)["plan"]["meeting"]["limits"]["lost_s"], 15.0);
  const Json& worker = (*json)["workers"][1];
  EXPECT_EQ(worker["rank"], 1);
  EXPECT_EQ(worker["environment"]["LOCAL_RANK"], "1");
  EXPECT_FALSE(worker["environment"].contains("HOME"));
  EXPECT_EQ(worker["command"][1], "--out=1");
}

TEST(DryRunTest, RanksFollowTheNodeRank) {
  LaunchPlan plan = TwoWorkers();
  plan.max_nodes = 3;
  plan.node_rank = 2;
  EXPECT_EQ(PlannedWorkers(plan, {}).at(0).rank, 4);
}

TEST(MaskedCommandTest, OnlyValuesOfSecretLookingOptions) {
  EXPECT_THAT(MaskedCommand({"p", "--key", "--x=1", "key=2", "--lr", "3", "--my-password=4"}),
              ElementsAre("p", "--key", "--x=1", "key=2", "--lr", "3", "--my-password=***"));
}

}  // namespace
}  // namespace lr::launcher
