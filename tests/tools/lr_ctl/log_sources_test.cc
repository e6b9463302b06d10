#include "tools/lr_ctl/log_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tools/lr_ctl/line_prefixer.h"

namespace lr {
namespace {

using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Node 1 of two with two workers each, in its second attempt.
Json Record() {
  return {{"run_id", "demo"},
          {"attempt", 1},
          {"world_size", 4},
          {"nodes",
           {{{"node_rank", 0},
             {"host", "a"},
             {"address", "10.0.0.1"},
             {"first_rank", 0},
             {"workers", 2}},
            {{"node_rank", 1},
             {"host", "b"},
             {"address", "10.0.0.2"},
             {"first_rank", 2},
             {"workers", 2}}}},
          {"logs",
           {{{"attempt", 0}, {"directory", "/l/attempt_0"}, {"first_rank", 0}, {"workers", 2}},
            {{"attempt", 1}, {"directory", "/l/attempt_1"}, {"first_rank", 2}, {"workers", 2}}}}};
}

std::vector<std::string> Paths(const LogRequest& request) {
  const Result<std::vector<LogSource>> sources = FindLogSources(Record(), request);
  std::vector<std::string> paths;
  for (const LogSource& source : sources.ok() ? *sources : std::vector<LogSource>()) {
    paths.push_back(source.path);
  }
  return paths;
}

TEST(LogSourcesTest, AllStreamsOfTheNewestAttempt) {
  EXPECT_THAT(Paths({}),
              ElementsAre("/l/attempt_1/0/stdout.log",
                          "/l/attempt_1/0/stderr.log",
                          "/l/attempt_1/1/stdout.log",
                          "/l/attempt_1/1/stderr.log"));
}

TEST(LogSourcesTest, OneStreamOfOneRankOfAnAttempt) {
  LogRequest request;
  request.rank = 3;
  request.out = false;
  EXPECT_THAT(Paths(request), ElementsAre("/l/attempt_1/1/stderr.log"));
  EXPECT_EQ(FindLogSources(Record(), request)->front().name, "3 stderr");
  request.rank = 1;
  request.attempt = 0;
  EXPECT_THAT(Paths(request), ElementsAre("/l/attempt_0/1/stderr.log"));
}

TEST(LogSourcesTest, NamesTheNodeOfARankThatIsElsewhere) {
  LogRequest request;
  request.rank = 1;
  EXPECT_THAT(FindLogSources(Record(), request),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 is on node 0 (a, 10.0.0.1); its log files are there")));
  request.rank = 4;
  EXPECT_THAT(FindLogSources(Record(), request),
              StatusIs(StatusCode::kNotFound, HasSubstr("no rank 4; it has 4 ranks")));
  request.attempt = 0;
  EXPECT_THAT(FindLogSources(Record(), request),
              StatusIs(StatusCode::kNotFound, HasSubstr("was not on this node in attempt 0")));
}

TEST(LogSourcesTest, SaysWhyThereAreNoFiles) {
  Json silent = Record();
  silent["logs"] = Json::array();
  EXPECT_THAT(FindLogSources(silent, {}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("--redirects=3 or --tee=3")));
  LogRequest request;
  request.attempt = 7;
  EXPECT_THAT(FindLogSources(Record(), request),
              StatusIs(StatusCode::kNotFound, HasSubstr("of attempt 7 on this node, but of 0, 1")));
}

TEST(LinePrefixerTest, PassesCompleteLinesOn) {
  LinePrefixer prefixer("[0] ");
  EXPECT_EQ(prefixer.Add("a\nb"), "[0] a\n");
  EXPECT_EQ(prefixer.Add("c\n\nd"), "[0] bc\n[0] \n");
  EXPECT_EQ(prefixer.Finish(), "[0] d\n");
  EXPECT_EQ(prefixer.Finish(), "");
}

TEST(LinePrefixerTest, EmptyPrefixChangesNothing) {
  LinePrefixer prefixer("");
  EXPECT_EQ(prefixer.Add("a\rb"), "a\rb");
  EXPECT_EQ(prefixer.Finish(), "");
}

}  // namespace
}  // namespace lr
