#include "common/io/json.h"

#include <cmath>

#include "tests/support/status_matchers.h"

namespace lr {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParseJsonTest, KeepsTheOrderOfKeys) {
  const Result<Json> json = ParseJson(R"({"b": 1, "a": [1.5, true, null, "x"]})");
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ(json->dump(), R"({"b":1,"a":[1.5,true,null,"x"]})");
}

TEST(ParseJsonTest, AcceptsPythonsNonFiniteNumbersButNotInsideStrings) {
  const Result<Json> json =
      ParseJson(R"([NaN, Infinity, -Infinity, "NaN", "say \"NaN\" -Infinity"])");
  ASSERT_THAT(json, IsOk());
  EXPECT_TRUE(std::isnan((*json)[0].get<double>()));
  EXPECT_EQ((*json)[1].get<double>(), INFINITY);
  EXPECT_EQ((*json)[2].get<double>(), -INFINITY);
  EXPECT_EQ((*json)[3], "NaN");
  EXPECT_EQ((*json)[4], "say \"NaN\" -Infinity");
}

TEST(ParseJsonTest, RefusesWhatIsNotJsonWithThePlace) {
  EXPECT_THAT(ParseJson("{\n  \"a\": 1,\n  \"b\" 2}"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("line 3")));
  for (const char* text : {"", "{", "[1,]", "{'a': 1}", "nan", "[1] x", "\"\x01\""}) {
    EXPECT_FALSE(ParseJson(text).ok()) << text;
  }
}

TEST(ParseJsonTest, ARepeatedKeyIsAnError) {
  EXPECT_THAT(ParseJson(R"({"a": 1, "a": 2})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"a\" is repeated")));
}

TEST(ParseJsonTest, SizeAndDepthAreBounded) {
  EXPECT_THAT(ParseJson("[[[[1]]]]", {.max_bytes = 100, .max_depth = 3}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("deeper than 3")));
  EXPECT_THAT(ParseJson("[1, 2]", {.max_bytes = 3}),
              StatusIs(StatusCode::kOutOfRange, AllOf(HasSubstr("6 bytes"), HasSubstr("limit 3"))));
  EXPECT_FALSE(ParseJson(std::string(1'000'000, '[')).ok());
}

TEST(DumpPythonJsonTest, IsByteForBytePythons) {
  const Json json = {{"lr", 1e-5},
                     {"n", 10.0},
                     {"k", 3},
                     {"empty", Json::array()},
                     {"none", nullptr},
                     {"list", {1, "é\n"}},
                     {"group", {{"a", true}}},
                     {"nothing", Json::object()}};
  EXPECT_EQ(DumpPythonJson(json, 4),
            "{\n    \"lr\": 1e-05,\n    \"n\": 10.0,\n    \"k\": 3,\n    \"empty\": [],\n    "
            "\"none\": null,\n"
            "    \"list\": [\n        1,\n        \"é\\n\"\n    ],\n    \"group\": {\n        "
            "\"a\": true\n    },\n"
            "    \"nothing\": {}\n}");
  EXPECT_EQ(DumpPythonJson(Json({{"a", {1, 2}}, {"b", "é"}}), -1, true),
            R"({"a": [1, 2], "b": "\u00e9"})");
}

TEST(PythonFloatTest, IsReprOfAPythonFloat) {
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(0.00001), "1e-05");
  EXPECT_EQ(PythonFloat(10.0), "10.0");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(0.1), "0.1");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(1.0 / 3), "0.3333333333333333");
}

}  // namespace
}  // namespace lr
