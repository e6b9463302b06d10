#include "common/config/value.h"

#include <cmath>

#include "tests/support/status_matchers.h"

namespace lr::config {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What a command line text becomes for a field of type T; fails the test when refused.
template <typename T>
T Read(const std::string& text) {
  T value{};
  const Result<Value> given = Value::FromText(text);
  EXPECT_THAT(given, IsOk()) << text;
  if (given.ok()) {
    EXPECT_THAT(Convert<T>::Read(*given, value), IsOk()) << text;
  }
  return value;
}

template <typename T>
bool Refused(const std::string& text) {
  T value{};
  const Result<Value> given = Value::FromText(text);
  return !given.ok() || !Convert<T>::Read(*given, value).ok();
}

TEST(ConvertTest, BoolTakesTrueAndFalseInAnyCapitalisation) {
  EXPECT_TRUE(Read<bool>("true"));
  EXPECT_TRUE(Read<bool>("True"));
  EXPECT_FALSE(Read<bool>("FALSE"));
  EXPECT_TRUE(Read<bool>("\"true\""));
  for (const char* text : {"1", "0", "yes", "", "null", "truee"}) {
    EXPECT_TRUE(Refused<bool>(text)) << text;
  }
}

TEST(ConvertTest, IntRefusesFloatsAndExponents) {
  EXPECT_EQ(Read<int64_t>("12"), 12);
  EXPECT_EQ(Read<int64_t>("-1"), -1);
  EXPECT_EQ(Read<int64_t>("007"), 7);
  EXPECT_EQ(Read<int64_t>("\"5\""), 5);
  EXPECT_EQ(Read<int64_t>("9223372036854775807"), INT64_MAX);
  for (const char* text : {"1e5", "1.0", "9223372036854775808", "true", "", "x", "[1]", "null"}) {
    EXPECT_TRUE(Refused<int64_t>(text)) << text;
  }
  int64_t value = 0;
  EXPECT_THAT(Convert<int64_t>::Read(*Value::FromText("1e5"), value),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("1e5")));
}

TEST(ConvertTest, FloatTakesWhatPythonTakes) {
  EXPECT_EQ(Read<double>("1e-4"), 1e-4);
  EXPECT_EQ(Read<double>("3"), 3.0);
  EXPECT_EQ(Read<double>(".5"), 0.5);
  EXPECT_EQ(Read<double>("1."), 1.0);
  EXPECT_EQ(Read<double>("+2.5"), 2.5);
  EXPECT_EQ(Read<double>("-inf"), -INFINITY);
  EXPECT_EQ(Read<double>("Infinity"), INFINITY);
  EXPECT_TRUE(std::isnan(Read<double>("nan")));
  for (const char* text : {"", "x", "1e", "1 2", "true", "0x10", "null", "--1", "nan(1)"}) {
    EXPECT_TRUE(Refused<double>(text)) << text;
  }
}

TEST(ConvertTest, TextKeepsItsSpelling) {
  for (const char* text : {"007", "1e5", "true", "null", "[a]", "a: b", "", "x y", "héllo"}) {
    EXPECT_EQ(Read<std::string>(text), text);
  }
  EXPECT_EQ(Read<std::string>("\"quoted\""), "quoted");
}

TEST(ConvertTest, OptionalTakesNull) {
  EXPECT_EQ(Read<std::optional<std::string>>("null"), std::nullopt);
  EXPECT_EQ(Read<std::optional<int64_t>>("~"), std::nullopt);
  EXPECT_EQ(Read<std::optional<int64_t>>("4"), 4);
  EXPECT_TRUE(Refused<std::optional<int64_t>>("x"));
}

TEST(ConvertTest, ListsAreJsonOrYamlFlow) {
  EXPECT_THAT(Read<std::vector<int64_t>>("[1, 2]"), ElementsAre(1, 2));
  EXPECT_THAT(Read<std::vector<std::string>>(R"(["a", "b"])"), ElementsAre("a", "b"));
  EXPECT_THAT(Read<std::vector<std::string>>("[a, b c]"), ElementsAre("a", "b c"));
  EXPECT_TRUE(Refused<std::vector<int64_t>>("[1, 2.5]"));
  EXPECT_TRUE(Refused<std::vector<int64_t>>("1"));
  EXPECT_TRUE(Refused<std::vector<int64_t>>("[1"));
}

TEST(ConvertTest, ATupleHasItsLength) {
  EXPECT_EQ((Read<std::array<double, 2>>("[0.9, 0.95]")), (std::array<double, 2>{0.9, 0.95}));
  EXPECT_TRUE((Refused<std::array<double, 2>>("[0.9]")));
  EXPECT_TRUE((Refused<std::array<double, 2>>("[1, 2, 3]")));
}

TEST(ConvertTest, MapsMayHaveUnquotedWordsAndDotsInKeys) {
  using Map = std::map<std::string, std::string>;
  const Map expected = {{"observation.images.a", "observation.images.b"}};
  EXPECT_EQ(Read<Map>(R"({"observation.images.a": "observation.images.b"})"), expected);
  EXPECT_EQ(Read<Map>("{observation.images.a: observation.images.b}"), expected);
  EXPECT_TRUE(Refused<Map>("[a]"));
}

TEST(ConvertTest, WritesWhatItReads) {
  EXPECT_EQ(Convert<std::optional<double>>::ToJson(1e-5).dump(), "1e-05");
  EXPECT_TRUE(Convert<std::optional<double>>::ToJson(std::nullopt).is_null());
  EXPECT_EQ((Convert<std::array<double, 2>>::ToJson({0.9, 0.999})).dump(), "[0.9,0.999]");
}

TEST(ConvertTest, AHugeNestingIsRefusedWithoutACrash) {
  EXPECT_TRUE(Refused<std::vector<int64_t>>(std::string(100'000, '[')));
}

}  // namespace
}  // namespace lr::config
