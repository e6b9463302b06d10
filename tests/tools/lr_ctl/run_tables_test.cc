#include "tools/lr_ctl/run_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"

namespace lr {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

Json SomeRun() {
  return {{"run_id", "demo"}, {"state", "running"}, {"world_size", 2}};
}

Json Trainer(int rank, double loss) {
  return {{"rank", rank},
          {"phase", "training"},
          {"step", 10 + rank},
          {"total_steps", 100},
          {"loss", loss},
          {"samples_per_s", 40}};
}

Json Failure() {
  return {{"rank", 13},
          {"node_rank", 1},
          {"host", "gpu07"},
          {"attempt", 0},
          {"ended_unix", 1772446272.5},
          {"how", "exit code 7"},
          {"cause", "peer lost"},
          {"evidence", "Connection closed by peer"},
          {"secondary", true},
          {"message", "RuntimeError: no\nmore"},
          {"last_lines", {"one", "two"}}};
}

TEST(RunTablesTest, RunsAreOneLineEachWithin80Columns) {
  Json trains = SomeRun();
  trains["run_id"] = std::string(40, 'x');
  trains["workers"] = Json::array({Trainer(0, 1.0), Trainer(1, 3.0)});
  const std::vector<std::string> lines = Split(RunsTable(Json::array({SomeRun(), trains})), '\n');
  ASSERT_EQ(lines.size(), 3);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 80);
  }
  EXPECT_THAT(lines[1], AllOf(HasSubstr("demo"), HasSubstr("running"), HasSubstr("  - ")));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("xx.."), HasSubstr("11/100"), HasSubstr("2.000")));
  EXPECT_THAT(RunsTable(Json::array()), HasSubstr("no run of yours"));
}

TEST(RunTablesTest, DetailTellsHowLongAPhaseLastsAndWhatTheHostSaid) {
  Json run = SomeRun();
  Json slow = Trainer(1, 1.0);
  slow["phase"] = "backward";
  slow["phase_s"] = 130.4;
  Json quick = Trainer(0, 1.0);
  quick["phase_s"] = 0.4;
  run["workers"] = Json::array({quick, slow});
  run["hang"] = {{"text", "hang: no progress of ranks 0-1\n  rank 1: step 11"}};
  run["stragglers"] = {{"text", "1 of 2 ranks below 0.75"}};
  const std::string text = RunDetail(run);
  EXPECT_THAT(text, HasSubstr("rank 0     training   step 10/100"));
  EXPECT_THAT(text, HasSubstr("rank 1     backward for 130 s step 11/100"));
  EXPECT_THAT(text, HasSubstr("hang       no progress of ranks 0-1\n  rank 1: step 11\n"));
  EXPECT_THAT(text, EndsWith("stragglers 1 of 2 ranks below 0.75"));
  run["hang"] = run["stragglers"] = nullptr;
  EXPECT_THAT(RunDetail(run), Not(HasSubstr("hang")));
}

TEST(RunTablesTest, StacksComeOneAfterTheOther) {
  EXPECT_EQ(StacksText({{{"rank", 0}, {"text", "rank 0\n"}}, {{"rank", 1}, {"text", "rank 1\n"}}}),
            "rank 0\n\nrank 1");
  EXPECT_EQ(StacksText(Json::array()), "no rank answered");
}

TEST(RunTablesTest, DetailTellsNodesRanksAndReason) {
  Json run = SomeRun();
  run["reason"] = "rank 1 failed";
  run["nodes"] =
      Json::array({Json{{"node_rank", 0}, {"host", "a"}, {"address", "b"}, {"workers", 2}}});
  run["workers"] = Json::array({Trainer(0, 1.0)});
  EXPECT_THAT(RunDetail(run),
              AllOf(HasSubstr("reason     rank 1 failed\n"),
                    HasSubstr("node 0     a (b), 2 workers from rank -\n"),
                    EndsWith("training   step 10/100  loss 1.000  40 samples/s")));
}

TEST(RunTablesTest, StatusLine) {
  EXPECT_EQ(StatusLine(SomeRun()), "demo running, 2 ranks");
  Json run = SomeRun();
  run["workers"] = Json::array({Trainer(0, 1.0), Trainer(1, 3.0)});
  run["reason"] = "why";
  EXPECT_EQ(StatusLine(run), "demo running, 2 ranks, step 11/100, loss 2.000, 40 samples/s: why");
}

TEST(RunTablesTest, FailureInFull) {
  Json run = SomeRun();
  run["failures"] = Json::array({Failure()});
  EXPECT_EQ(FailuresText(run),
            "rank 13    2026-03-02 10:11:12Z, attempt 0, node 1 (gpu07), exit code 7\n"
            "  cause    peer lost (a consequence of another end): Connection closed by peer\n"
            "  message  RuntimeError: no\n"
            "  last lines of stderr:\n"
            "    one\n"
            "    two");
}

TEST(RunTablesTest, FailureOfWhichLittleIsKnown) {
  Json stopped = Failure();
  stopped["stopped_by_launcher"] = true;
  Json run = SomeRun();
  run["failures"] = Json::array({Json{{"rank", 1}}, stopped});
  EXPECT_THAT(FailuresText(run),
              AllOf(HasSubstr("node - (-), -\nrank 13"),
                    HasSubstr("cause    stopped by lr-launch\n"),
                    Not(HasSubstr("peer lost"))));
}

TEST(RunTablesTest, NoFailure) {
  EXPECT_EQ(FailuresText(SomeRun()), "run demo (running) has no failure on record");
}

}  // namespace
}  // namespace lr
