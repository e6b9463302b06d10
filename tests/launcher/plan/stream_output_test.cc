#include "launcher/plan/stream_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;

const WorkerName kWorker{.role = "default",
                         .host_name = "gpu01",
                         .rank = 11,
                         .local_rank = 3,
                         .node_rank = 1,
                         .alone = false};

StreamOutput Out(const LogPlan& plan) {
  return PlanStreamOutput(plan, WorkerStream::kOut, kWorker, "/logs/attempt_0");
}

StreamOutput Err(const LogPlan& plan) {
  return PlanStreamOutput(plan, WorkerStream::kErr, kWorker, "/logs/attempt_0");
}

TEST(StreamOutputTest, UntouchedStreamGoesToTheConsoleInWholeLinesWithoutPrefix) {
  const StreamOutput output = Out({});
  EXPECT_TRUE(output.to_console);
  EXPECT_TRUE(output.whole_lines);
  EXPECT_EQ(output.prefix, "");
  EXPECT_EQ(output.file, "");
  EXPECT_FALSE(WantsLogFiles({}));
}

TEST(StreamOutputTest, SingleWorkersBytesPassAtOnceUnlessTheyGetAPrefix) {
  WorkerName alone = kWorker;
  alone.alone = true;
  LogPlan plan;
  EXPECT_FALSE(PlanStreamOutput(plan, WorkerStream::kOut, alone, "").whole_lines);
  plan.tee.others = 1;
  EXPECT_TRUE(PlanStreamOutput(plan, WorkerStream::kOut, alone, "").whole_lines);
}

TEST(StreamOutputTest, RedirectedStreamGoesToItsFileOnly) {
  LogPlan plan;
  plan.redirects = {.others = 0, .of_rank = {{3, 2}}};
  EXPECT_TRUE(WantsLogFiles(plan));
  EXPECT_FALSE(Err(plan).to_console);
  EXPECT_EQ(Err(plan).file, "/logs/attempt_0/3/stderr.log");
  EXPECT_TRUE(Out(plan).to_console);
  EXPECT_EQ(Out(plan).file, "");
}

TEST(StreamOutputTest, TeedStreamGoesToBothWithAPrefixAlsoWhenRedirected) {
  LogPlan plan;
  plan.tee.others = 1;
  plan.redirects.others = 3;
  EXPECT_TRUE(Out(plan).to_console);
  EXPECT_EQ(Out(plan).prefix, "[default3]:");
  EXPECT_EQ(Out(plan).file, "/logs/attempt_0/3/stdout.log");
  EXPECT_FALSE(Err(plan).to_console);
}

TEST(StreamOutputTest, FiltersSilenceTheConsoleAndLeaveTheFiles) {
  LogPlan plan;
  plan.tee.others = 3;
  plan.local_ranks_filter = {0, 1};
  EXPECT_FALSE(Out(plan).to_console);
  EXPECT_EQ(Out(plan).file, "/logs/attempt_0/3/stdout.log");
  plan.local_ranks_filter = {3};
  EXPECT_TRUE(Out(plan).to_console);
  plan.ranks_filter = {3};  // its global rank is 11
  EXPECT_FALSE(Out(plan).to_console);
}

TEST(StreamOutputTest, MatchingLinesAreCopiedWhateverElseHappensToThem) {
  LogPlan plan;
  plan.stderr_filters = {"loss"};
  EXPECT_EQ(Err(plan).filtered_file, "/logs/attempt_0/filtered_stderr.log");
  EXPECT_EQ(Err(plan).filtered_prefix, "[default3]:");
  EXPECT_THAT(Err(plan).filters, ElementsAre("loss"));
  EXPECT_EQ(Out(plan).filtered_file, "");
}

TEST(StreamOutputTest, RedirectedStreamWithoutAPlaceIsShownUnlessItIsToBeDiscarded) {
  LogPlan plan;
  plan.redirects.others = 3;
  EXPECT_TRUE(PlanStreamOutput(plan, WorkerStream::kOut, kWorker, "").to_console);
  plan.discard = true;
  EXPECT_FALSE(PlanStreamOutput(plan, WorkerStream::kOut, kWorker, "").to_console);
  EXPECT_EQ(PlanStreamOutput(plan, WorkerStream::kOut, kWorker, "").file, "");
}

TEST(StreamOutputTest, AnyLineCanHaveThePrefix) {
  LogPlan plan;
  plan.prefix_untouched = true;
  plan.prefix_template = "${host}:${rank}: ";
  EXPECT_EQ(Out(plan).prefix, "gpu01:11: ");
}

TEST(StreamOutputTest, PrefixFollowsPythonsTemplateRules) {
  EXPECT_EQ(FillPrefix("[${role_name}${local_rank}|$rank@${hostname}/$node_rank]:", kWorker),
            "[default3|11@gpu01/1]:");
  EXPECT_EQ(FillPrefix("$$rank ${unknown} $unknown ${rank $ $", kWorker),
            "$rank ${unknown} $unknown ${rank $ $");
  EXPECT_EQ(FillPrefix("", kWorker), "");
}

}  // namespace
}  // namespace lr::launcher
