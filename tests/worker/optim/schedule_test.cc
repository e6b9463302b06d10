// Schedules against the values of LeRobot's own (schedulers_expected.json), and LrScheduler's life.
#include "worker/optim/schedule.h"

#include <cmath>
#include <fstream>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "worker/optim/optimizer.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json ReadJson(const std::string& name) {
  std::ifstream file(std::string(LR_TEST_DATA) + "/" + name);
  return Json::parse(file);
}

SchedulerConfig ConfigOf(const Json& row) {
  SchedulerConfig config;
  config.type = row.at("type");
  const Json& fields = row.at("config");
  if (!fields.at("num_warmup_steps").is_null()) {
    config.num_warmup_steps = fields.at("num_warmup_steps").get<int64_t>();
  }
  config.name = fields.value("name", config.name);
  config.num_vqvae_training_steps = fields.value("num_vqvae_training_steps", int64_t{0});
  config.num_cycles = fields.value("num_cycles", 0.5);
  config.num_decay_steps = fields.value("num_decay_steps", int64_t{0});
  config.peak_lr = fields.value("peak_lr", 0.0);
  config.decay_lr = fields.value("decay_lr", 0.0);
  return config;
}

void ExpectFactor(const ScheduleFunction& schedule,
                  int64_t step,
                  double expected,
                  const std::string& what) {
  EXPECT_NEAR(schedule(step), expected, 1e-12 * std::abs(expected) + 1e-15)
      << what << ", step " << step;
}

TEST(ScheduleTest, EqualsTheReferenceForEveryTypeAndStep) {
  const Json cases = ReadJson("schedulers_expected.json").at("cases");
  ASSERT_EQ(cases.size(), 21U);
  for (const Json& row : cases) {
    const Result<ScheduleFunction> schedule =
        MakeSchedule(ConfigOf(row), row.at("num_training_steps"), 1.0);
    ASSERT_THAT(schedule, IsOk()) << row.dump();
    for (int64_t step = 0; step < 50; ++step) {
      ExpectFactor(*schedule,
                   step,
                   row.at("first_50").at(static_cast<size_t>(step)),
                   row.at("config").dump());
    }
    for (const auto& [step, expected] : row.at("selected").items()) {
      ExpectFactor(*schedule, std::stoll(step), expected, row.at("config").dump());
    }
  }
}

TEST(ScheduleTest, RefusesUnknownTypesNamesAndMissingWarmup) {
  SchedulerConfig config;
  config.type = "vqbert";
  EXPECT_THAT(
      MakeSchedule(config, 10),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("'vqbet'"), HasSubstr("diffuser"))));
  config.type = "diffuser";
  EXPECT_THAT(MakeSchedule(config, 10),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("num_warmup_steps")));
  config.name = "piecewise_constant";
  EXPECT_THAT(MakeSchedule(config, 10),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("cosine_with_restarts")));
  config.type = "cosine_annealing_with_warmup";
  EXPECT_THAT(MakeSchedule(config, 10),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("num_warmup_steps")));
  config.num_warmup_steps = -1;
  EXPECT_THAT(MakeSchedule(config, 10), StatusIs(StatusCode::kInvalidArgument, HasSubstr("-1")));
}

TEST(ScheduleTest, PolynomialNeedsARateAboveItsEnd) {
  SchedulerConfig config;
  config.type = "diffuser";
  config.name = "polynomial";
  config.num_warmup_steps = 0;
  EXPECT_THAT(MakeSchedule(config, 10),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("learning rate")));
  EXPECT_THAT(MakeSchedule(config, 10, 1e-8),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("1e-07")));
  EXPECT_DOUBLE_EQ((*MakeSchedule(config, 10, 1e-4))(11), 1e-3);
}

TEST(ScheduleTest, SaysHowItFittedTheDecayToAShortRun) {
  SchedulerConfig config;
  config.type = "cosine_decay_with_warmup";
  config.num_warmup_steps = 1000;
  config.num_decay_steps = 30000;
  EXPECT_THAT(DescribeScheduleScaling(config, 3000),
              AllOf(HasSubstr("1000 -> 100"), HasSubstr("30000 -> 3000")));
  EXPECT_EQ(DescribeScheduleScaling(config, 30000), "");
}

std::unique_ptr<Optimizer> TwoGroups() {
  std::vector<OptimizerGroup> groups(2);
  for (OptimizerGroup& group : groups) {
    group.names = {"p"};
    group.params = {at::zeros({1})};
  }
  groups[1].lr = 0.5;
  groups[1].lr_is_own = true;
  OptimizerConfig config;
  config.lr = 2.0;
  return std::move(Optimizer::Create(config, std::move(groups))).value();
}

TEST(LrSchedulerTest, ScalesEveryGroupFromItsOwnBaseRate) {
  const std::unique_ptr<Optimizer> optimizer = TwoGroups();
  LrScheduler scheduler(*optimizer, [](int64_t step) { return static_cast<double>(step) / 4.0; });
  EXPECT_EQ(scheduler.last_lr(), (std::vector<double>{0.0, 0.0}));
  EXPECT_EQ(scheduler.base_lrs(), (std::vector<double>{2.0, 0.5}));
  scheduler.Step();
  scheduler.Step();
  EXPECT_EQ(scheduler.last_epoch(), 2);
  EXPECT_EQ(scheduler.last_lr(), (std::vector<double>{1.0, 0.25}));
  EXPECT_EQ(optimizer->groups()[0].initial_lr, 2.0);
}

TEST(LrSchedulerTest, ContinuesWhereItWasSaved) {
  const std::unique_ptr<Optimizer> optimizer = TwoGroups();
  LrScheduler scheduler(*optimizer, [](int64_t step) { return static_cast<double>(step); });
  ASSERT_THAT(scheduler.Restore(3, {1.0, 10.0}), IsOk());
  EXPECT_EQ(scheduler.last_lr(), (std::vector<double>{3.0, 30.0}));
  EXPECT_THAT(scheduler.Restore(3, {1.0}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("2 groups")));
  EXPECT_THAT(scheduler.Restore(-1, {1.0, 1.0}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_EQ(scheduler.last_epoch(), 3);
}

}  // namespace
}  // namespace lr::worker
