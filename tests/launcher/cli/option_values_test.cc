#include "launcher/cli/option_values.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using std::chrono_literals::operator""ms;

constexpr auto kInvalid = StatusCode::kInvalidArgument;

TEST(OptionValuesTest, NodeRanges) {
  EXPECT_EQ(*ReadNodeRange("3", "x"), std::pair(3, 3));
  EXPECT_EQ(*ReadNodeRange("1:4", "x"), std::pair(1, 4));
  for (const char* bad : {"0", "4:1", "1:2:3", "", ":", "a", "1:", "-1", "20000"}) {
    EXPECT_THAT(ReadNodeRange(bad, "--nnodes=?"),
                StatusIs(kInvalid, HasSubstr("--nnodes=?: must be N or MIN:MAX")))
        << bad;
  }
}

TEST(OptionValuesTest, Endpoints) {
  const auto check = [](const char* text, const char* host, std::optional<int> port) {
    const auto endpoint = ReadEndpoint(text, "x");
    ASSERT_THAT(endpoint, IsOk()) << text;
    EXPECT_EQ(endpoint->host, host);
    EXPECT_EQ(endpoint->port, port);
  };
  check("node0", "node0", std::nullopt);
  check("node0:29400", "node0", 29400);
  check("localhost:0", "localhost", 0);
  check("[::1]:5", "::1", 5);
  check("[fe80::1%eth0]", "fe80::1%eth0", std::nullopt);
  check("fe80::1", "fe80::1", std::nullopt);
  for (const char* bad : {":5",
                          "h:",
                          "h:x",
                          "h:70000",
                          "[::1",
                          "[::1]5",
                          "[::1]:",
                          "a:1,b:2",
                          "dns+srv:x",
                          "file:/x",
                          "[]:5"}) {
    EXPECT_THAT(ReadEndpoint(bad, "--rdzv-endpoint=?"),
                StatusIs(kInvalid, HasSubstr("--rdzv-endpoint=?")))
        << bad;
  }
}

TEST(OptionValuesTest, Seconds) {
  EXPECT_EQ(*ReadSeconds("1.5", "x"), 1500ms);
  EXPECT_EQ(*ReadSeconds("0", "x"), 0ms);
  for (const char* bad : {"", "-1", "x", "1s", "nan", "inf", "1e9"}) {
    EXPECT_THAT(ReadSeconds(bad, "--shutdown-timeout"), StatusIs(kInvalid, HasSubstr("seconds")))
        << bad;
  }
}

TEST(OptionValuesTest, Signals) {
  EXPECT_THAT(*ReadSignals("SIGTERM,INT, SIGTERM", "x"), ElementsAre(SIGTERM, SIGINT));
  EXPECT_THAT(ReadSignals("SIGKILL", "x"),
              StatusIs(kInvalid, HasSubstr("'SIGKILL' cannot be handled")));
  EXPECT_THAT(ReadSignals("", "x"), StatusIs(kInvalid, HasSubstr("known signals: SIGTERM")));
}

TEST(OptionValuesTest, KeyValues) {
  EXPECT_THAT(*ReadKeyValues("a=1, b=x=y", "x"), ElementsAre(Pair("a", "1"), Pair("b", "x=y")));
  EXPECT_THAT(*ReadKeyValues("", "x"), IsEmpty());
  for (const char* bad : {"a", "a=", "=1", "a=1,,b=2"}) {
    EXPECT_THAT(ReadKeyValues(bad, "--rdzv-conf"),
                StatusIs(kInvalid, HasSubstr("is not KEY=VALUE")))
        << bad;
  }
}

TEST(OptionValuesTest, WordsSuggestTheNearest) {
  EXPECT_THAT(CheckWord("spawn", "x", {"spawn", "fork"}), IsOk());
  EXPECT_THAT(CheckWord("span", "--start-method=span", {"spawn", "fork"}),
              StatusIs(kInvalid, HasSubstr("must be one of spawn, fork; did you mean spawn?")));
}

TEST(OptionValuesTest, WholeNumbers) {
  EXPECT_EQ(*ReadWhole("7", "x", 0, 9), 7);
  EXPECT_THAT(ReadWhole("10", "--node-rank=10", 0, 9),
              StatusIs(kInvalid, HasSubstr("--node-rank=10: must be a whole number from 0 to 9")));
}

}  // namespace
}  // namespace lr::launcher
