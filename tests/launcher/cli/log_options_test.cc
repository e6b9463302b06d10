#include "launcher/cli/log_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<LogPlan> Read(std::vector<std::string> arguments,
                     std::map<std::string, std::string> variables = {}) {
  arguments.emplace_back("program");
  const EnvironmentReader environment = MapEnvironment(std::move(variables));
  LR_ASSIGN(const CommandLine line, ParseCommandLine(arguments, environment));
  return ReadLogPlan(line, environment);
}

std::vector<int> Bits(const std::string& text, std::vector<int> ranks) {
  const StreamChoice choice = *ReadStreamChoice(text, "-r");
  std::vector<int> bits;
  for (const int rank : ranks) {
    bits.push_back(choice.Covers(rank, WorkerStream::kOut) +
                   2 * choice.Covers(rank, WorkerStream::kErr));
  }
  return bits;
}

TEST(LogOptionsTest, StreamChoiceHasTorchrunsFormsAndOurs) {
  EXPECT_THAT(Bits("3", {0, 9}), ElementsAre(3, 3));
  EXPECT_THAT(Bits("0:1,1:2", {0, 1, 2}), ElementsAre(1, 2, 0));
  EXPECT_THAT(Bits("0-7:3,10:1", {0, 7, 8, 10}), ElementsAre(3, 3, 0, 1));
  EXPECT_THAT(Bits("*:1,2:0", {0, 2}), ElementsAre(1, 0));
  EXPECT_THAT(Bits("0-3:1,2:3", {1, 2}), ElementsAre(1, 3));
}

TEST(LogOptionsTest, OtherStreamChoicesAreUsageErrors) {
  for (const char* text : {"", "4", "33", "0:4", "0:", ":1", "a:1", "3-1:1", "0:1,2", "1-2-3:1"}) {
    EXPECT_THAT(ReadStreamChoice(text, "-r"),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("-r: ")))
        << text;
  }
}

TEST(LogOptionsTest, RankSets) {
  EXPECT_THAT(*ReadRankSet("0, 2-4,11", "f"), ElementsAre(0, 2, 3, 4, 11));
  EXPECT_THAT(*ReadRankSet("", "f"), IsEmpty());
  EXPECT_THAT(ReadRankSet("0,x", "f"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("'x'")));
}

TEST(LogOptionsTest, TwoCommasAreOne) {
  EXPECT_THAT(ReadFilters("a b,c"), ElementsAre("a b", "c"));
  EXPECT_THAT(ReadFilters("a,,b,c,,"), ElementsAre("a,b", "c,"));
  EXPECT_THAT(ReadFilters(","), IsEmpty());
}

TEST(LogOptionsTest, ByteSizes) {
  EXPECT_EQ(*ReadByteSize("1000", "s"), 1000U);
  EXPECT_EQ(*ReadByteSize("64K", "s"), 65536U);
  EXPECT_EQ(*ReadByteSize("2G", "s"), 2ULL << 30);
  for (const char* text : {"", "K", "-1", "1.5M", "1T"}) {
    EXPECT_THAT(ReadByteSize(text, "s"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("s: ")))
        << text;
  }
}

TEST(LogOptionsTest, EveryOptionArrives) {
  const LogPlan plan = *Read({"-r3",
                              "-t",
                              "0:1",
                              "--log-line-prefix-template=${rank} ",
                              "--local-ranks-filter=0",
                              "--ranks-filter=1,2",
                              "--duplicate-stdout-filters=x,y",
                              "--duplicate-stderr-filters=z",
                              "--log-max-size=1M",
                              "--log-keep=7",
                              "--tty"});
  EXPECT_EQ(plan.redirects.others, 3);
  EXPECT_TRUE(plan.tee.Covers(0, WorkerStream::kOut));
  EXPECT_EQ(plan.prefix_template, "${rank} ");
  EXPECT_THAT(plan.local_ranks_filter, ElementsAre(0));
  EXPECT_THAT(plan.ranks_filter, ElementsAre(1, 2));
  EXPECT_THAT(plan.stdout_filters, ElementsAre("x", "y"));
  EXPECT_THAT(plan.stderr_filters, ElementsAre("z"));
  EXPECT_EQ(plan.max_file_bytes, 1U << 20);
  EXPECT_EQ(plan.kept_files, 7);
  EXPECT_TRUE(plan.tty);
}

TEST(LogOptionsTest, VariablesSupplyWhatIsNotGiven) {
  const LogPlan plan = *Read({"--redirects=0"},
                             {{"PET_REDIRECTS", "3"},
                              {"PET_TEE", "1"},
                              {"PET_LOG_LINE_PREFIX_TEMPLATE", "a:"},
                              {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "b:"},
                              {"PET_LOCAL_RANKS_FILTER", "4"},
                              {"PET_DUPLICATE_STDOUT_FILTERS", "x"},
                              {"PET_DUPLICATE_STDERR_FILTERS", "y"}});
  EXPECT_EQ(plan.redirects.others, 0);
  EXPECT_EQ(plan.tee.others, 1);
  EXPECT_EQ(plan.prefix_template, "a:");
  EXPECT_THAT(plan.local_ranks_filter, ElementsAre(4));
  EXPECT_THAT(plan.stdout_filters, ElementsAre("x"));
  EXPECT_THAT(plan.stderr_filters, ElementsAre("y"));
}

TEST(LogOptionsTest, PrefixComesFromOptionThenVariableThenRole) {
  const std::map<std::string, std::string> inherited = {
      {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "b:"}};
  EXPECT_EQ(Read({})->prefix_template, "[${role_name}${local_rank}]:");
  EXPECT_FALSE(Read({})->prefix_untouched);
  EXPECT_EQ(Read({}, inherited)->prefix_template, "b:");
  EXPECT_EQ(Read({"--log-prefix=node-rank"}, inherited)->prefix_template, "${host}:${rank}: ");
  EXPECT_TRUE(Read({"--log-prefix=role"})->prefix_untouched);
  EXPECT_EQ(Read({"--log-prefix=role"}, inherited)->prefix_template,
            "[${role_name}${local_rank}]:");
  EXPECT_EQ(Read({"--log-prefix=role", "--log-line-prefix-template=c:"})->prefix_template, "c:");
  EXPECT_THAT(Read({"--log-prefix=nodes"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("teed, role, node-rank")));
  EXPECT_THAT(Read({"--log-line-prefix-template=a\nb"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("on one line")));
}

TEST(LogOptionsTest, NullDeviceDiscards) {
  EXPECT_TRUE(Read({"--log-dir=/dev/null"})->discard);
  EXPECT_FALSE(Read({"--log-dir=x"})->discard);
}

}  // namespace
}  // namespace lr::launcher
