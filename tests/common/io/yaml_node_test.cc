#include "common/io/yaml_node.h"

#include <cmath>

#include "tests/support/status_matchers.h"

namespace lr {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

Json Parsed(std::string_view text) {
  const Result<Json> json = ParseYaml(text);
  EXPECT_THAT(json, IsOk()) << text;
  return json.ok() ? *json : Json();
}

TEST(ParseYamlTest, ReadsAConfigurationFileInOrder) {
  const Json json = Parsed(
      "# a comment\n"
      "dataset:\n"
      "  repo_id: lerobot/pusht\n"
      "  episodes: [0, 1]\n"
      "steps: 100\n"
      "policy: {type: act, dropout: 0.5}\n"
      "job_name:\n");
  EXPECT_EQ(json.dump(),
            R"({"dataset":{"repo_id":"lerobot/pusht","episodes":[0,1]},"steps":100,)"
            R"("policy":{"type":"act","dropout":0.5},"job_name":null})");
}

TEST(ParseYamlTest, PlainScalarsHaveTypesAndQuotedOnesAreText) {
  EXPECT_EQ(Parsed("[true, False, TRUE, ~, null, Null]").dump(),
            "[true,false,true,null,null,null]");
  EXPECT_EQ(Parsed("[12, -3, 1.5, -.5, 1.0e-5, 2.]").dump(), "[12,-3,1.5,-0.5,1e-05,2.0]");
  EXPECT_EQ(Parsed(R"(["12", 'true', "null"])").dump(), R"(["12","true","null"])");
  EXPECT_EQ(Parsed("[.inf, -.inf]")[1].get<double>(), -INFINITY);
  EXPECT_TRUE(std::isnan(Parsed(".nan").get<double>()));
}

TEST(ParseYamlTest, WhatOnlyLooksLikeANumberKeepsItsSpelling) {
  EXPECT_EQ(Parsed("[007, 1e-5, 12:30, 0x1F, yes, 1_000]").dump(),
            R"(["007","1e-5","12:30","0x1F","yes","1_000"])");
}

TEST(ParseYamlTest, AnEmptyTextIsNull) {
  EXPECT_TRUE(Parsed("").is_null());
  EXPECT_TRUE(Parsed("# nothing\n").is_null());
}

TEST(ParseYamlTest, ErrorsNameThePlace) {
  EXPECT_THAT(ParseYaml("a: 1\nb: [1, 2\n"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("line 3")));
  EXPECT_THAT(ParseYaml("a: 1\na: 2\n"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("line 2"), HasSubstr("\"a\" is repeated"))));
  EXPECT_THAT(ParseYaml("? [1]\n: 2\n"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("key must be text")));
  EXPECT_THAT(ParseYaml("a: 1\n---\nb: 2\n"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("2 documents")));
}

TEST(ParseYamlTest, SizeDepthAndExpansionAreBounded) {
  EXPECT_THAT(ParseYaml("[1, 2]", {.max_bytes = 3}),
              StatusIs(StatusCode::kOutOfRange, HasSubstr("limit 3")));
  EXPECT_THAT(ParseYaml("[[[[1]]]]", {.max_depth = 3}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("deeper than 3")));
  EXPECT_FALSE(ParseYaml(std::string(200'000, '[')).ok());
  EXPECT_FALSE(ParseYaml(std::string(200'000, '{')).ok());
  std::string deep;
  for (int i = 0; i < 2'000; ++i) {
    deep += "- ";
  }
  EXPECT_FALSE(ParseYaml(deep + "1").ok());
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_THAT(ParseYaml(bomb), StatusIs(StatusCode::kOutOfRange, HasSubstr("values")));
}

TEST(ParseYamlTest, AnAnchorThatHoldsItselfIsRefused) {
  EXPECT_FALSE(ParseYaml("a: &a [*a]").ok());
}

}  // namespace
}  // namespace lr
