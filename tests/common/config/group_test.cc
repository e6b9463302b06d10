#include "common/config/group.h"

#include "common/base/text.h"
#include "tests/support/status_matchers.h"

namespace lr::config {

enum class Speed { kSlow, kFast };

template <>
struct EnumNames<Speed> {
  static constexpr std::array<std::pair<Speed, std::string_view>, 2> kNames = {
      {{Speed::kSlow, "slow"}, {Speed::kFast, "fast"}}};
};

namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct Engine {
  std::string type = "steam";
  int64_t cylinders = 2;
  double pressure = 1.5;  // steam only
  double voltage = 3.0;   // electric only
};

struct Car {
  std::string name = "car";
  int64_t seats = 4;
  bool automatic = false;
  Speed speed = Speed::kSlow;
  std::optional<Engine> engine;
};

void DescribeEngine(Engine& engine, Group& group) {
  group.Add("type", engine.type, "What drives it.");
  group.Add("cylinders", engine.cylinders, "How many.");
  if (engine.type == "steam") {
    group.Add("pressure", engine.pressure, "In bar.");
  } else {
    group.Add("voltage", engine.voltage, "In volts.");
  }
}

void Describe(Car& car, Group& group) {
  group.Add("name", car.name, "What it is called.");
  group.Add("seats", car.seats, "How many people fit.");
  Group& gear = group.Sub("gear", "The gear box.");
  gear.Add("automatic", car.automatic, "Shifts by itself.").Newer();
  gear.Add("speed", car.speed, "How fast it shifts.");
  group.OptionalSub<Engine>("engine", car.engine, DescribeEngine, "The engine, if any.");
}

class GroupTest : public ::testing::Test {
 protected:
  GroupTest() {
    Describe(car_, group_);
    Describe(untouched_, defaults_);
  }

  Status Set(const std::string& path, const std::string& text) {
    LR_ASSIGN(const Value value, Value::FromText(text));
    return group_.Set(path, value);
  }

  Car car_;
  Car untouched_;
  Group group_;
  Group defaults_;
};

TEST_F(GroupTest, AFlagReachesItsField) {
  EXPECT_THAT(Set("seats", "5"), IsOk());
  EXPECT_THAT(Set("gear.speed", "fast"), IsOk());
  EXPECT_EQ(car_.seats, 5);
  EXPECT_EQ(car_.speed, Speed::kFast);
}

TEST_F(GroupTest, ABadValueLeavesTheOldOneAndSaysWhatIsExpected) {
  EXPECT_THAT(Set("seats", "many"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("many")));
  EXPECT_THAT(Set("gear.speed", "warp"),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("slow"), HasSubstr("fast"))));
  EXPECT_EQ(car_.seats, 4);
}

TEST_F(GroupTest, AnUnknownNameIsNotFound) {
  for (const char* path : {"seat", "gear.sped", "seats.x", "engine.wheels", ".", "", "gear."}) {
    EXPECT_FALSE(Set(path, "1").ok()) << path;
  }
  EXPECT_FALSE(car_.engine.has_value()) << "a refused flag creates nothing";
}

TEST_F(GroupTest, AFieldOfAnOptionalGroupCreatesIt) {
  EXPECT_THAT(Set("engine.cylinders", "6"), IsOk());
  ASSERT_TRUE(car_.engine.has_value());
  EXPECT_EQ(car_.engine->cylinders, 6);
  EXPECT_THAT(Set("engine", "null"), IsOk());
  EXPECT_FALSE(car_.engine.has_value());
}

TEST_F(GroupTest, TheTypeDecidesWhichFieldsFollow) {
  EXPECT_THAT(Set("engine.type", "electric"), IsOk());
  EXPECT_THAT(Set("engine.voltage", "12"), IsOk());
  EXPECT_EQ(car_.engine->voltage, 12.0);
  EXPECT_THAT(Set("engine.pressure", "2"), StatusIs(StatusCode::kNotFound, HasSubstr("pressure")));
}

TEST_F(GroupTest, AGroupCanBeSetAsAMap) {
  EXPECT_THAT(Set("engine", R"({"voltage": 12, "type": "electric"})"), IsOk());
  ASSERT_TRUE(car_.engine.has_value());
  EXPECT_EQ(car_.engine->voltage, 12.0);
  EXPECT_FALSE(Set("gear", "5").ok());
  EXPECT_FALSE(Set("gear", "null").ok()) << "only optional groups can be null";
}

TEST_F(GroupTest, AFileIsTakenOverTypeFirst) {
  const Json file = {{"name", "van"}, {"engine", {{"voltage", 9}, {"type", "electric"}}}};
  EXPECT_THAT(group_.ReadJson(file, UnknownKeys::kError), IsOk());
  EXPECT_EQ(car_.name, "van");
  EXPECT_EQ(car_.engine->voltage, 9.0);
}

TEST_F(GroupTest, UnknownKeysOfAFileAreNamedOrKept) {
  const Json file = {{"name", "van"}, {"wings", 2}, {"gear", {{"box", "x"}, {"speed", "fast"}}}};
  EXPECT_THAT(group_.ReadJson(file, UnknownKeys::kError),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("gear.box")));
  Json unknown = Json::object();
  EXPECT_THAT(group_.ReadJson(file, UnknownKeys::kKeep, &unknown), IsOk());
  EXPECT_EQ(unknown.dump(), R"({"wings":2,"gear":{"box":"x"}})");
  EXPECT_EQ(car_.speed, Speed::kFast);
}

TEST_F(GroupTest, WritesInOrderAndNewerKeysOnlyWhenChanged) {
  EXPECT_EQ(group_.WriteJson(&defaults_).dump(),
            R"({"name":"car","seats":4,"gear":{"speed":"slow"},"engine":null})");
  EXPECT_THAT(Set("gear.automatic", "true"), IsOk());
  EXPECT_THAT(Set("engine.type", "steam"), IsOk());
  EXPECT_EQ(group_.WriteJson(&defaults_).dump(),
            R"({"name":"car","seats":4,"gear":{"automatic":true,"speed":"slow"},)"
            R"("engine":{"type":"steam","cylinders":2,"pressure":1.5}})");
}

TEST_F(GroupTest, WhatIsWrittenReadsBack) {
  EXPECT_THAT(Set("engine.type", "electric"), IsOk());
  EXPECT_THAT(Set("name", "0012"), IsOk());
  const Json written = group_.WriteJson();
  Car copy;
  Group again;
  Describe(copy, again);
  EXPECT_THAT(again.ReadJson(written, UnknownKeys::kError), IsOk());
  EXPECT_EQ(again.WriteJson().dump(), written.dump());
}

TEST_F(GroupTest, HelpShowsEveryFlagWithTypeAndDefaultWithinAHundredColumns) {
  std::vector<FieldHelp> fields;
  group_.CollectHelp("", fields);
  const std::string help = RenderHelp(fields);
  EXPECT_THAT(help, AllOf(HasSubstr("--seats=int"), HasSubstr("default 4")));
  EXPECT_THAT(help, AllOf(HasSubstr("--gear.speed=slow|fast"), HasSubstr("The gear box.")));
  EXPECT_THAT(help, HasSubstr("--engine.cylinders"));
  EXPECT_FALSE(car_.engine.has_value()) << "help changes nothing";
  for (const std::string& line : Split(help, '\n')) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST_F(GroupTest, ListsItsPathsForSuggestions) {
  EXPECT_THAT(group_.Paths(), AllOf(Contains("gear.speed"), Contains("engine.cylinders")));
  EXPECT_EQ(NearestName("gear.sped", group_.Paths()), "gear.speed");
}

}  // namespace
}  // namespace lr::config
