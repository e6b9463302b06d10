#include "launcher/plan/plan_digest.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

LaunchPlan Plan(bool native) {
  LaunchPlan plan;
  plan.local_size = 2;
  plan.program = {.given = "a/train.py",
                  .executable = "/usr/bin/python3",
                  .argv = {"/usr/bin/python3", "-u", "a/train.py", "--lr", "1"},
                  .first_argument = 3,
                  .native = native,
                  .kind = "python script"};
  return plan;
}

std::vector<std::string> Differences(const LaunchPlan& a, const LaunchPlan& b) {
  const auto first = PlanDigest(a, "none", "1");
  const auto second = PlanDigest(b, "none", "1");
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i] != second[i]) {
      names.push_back(first[i].first);
    }
  }
  return names;
}

TEST(PlanDigestTest, PlaceOfTheProgramDoesNotMatter) {
  LaunchPlan other = Plan(false);
  other.program.given = "/else/train.py";
  other.program.executable = "/opt/python";
  other.program.argv = {"/opt/python", "-u", "/else/train.py", "--lr", "1"};
  EXPECT_THAT(Differences(Plan(false), other), ::testing::IsEmpty());
}

TEST(PlanDigestTest, EachDifferenceIsNamed) {
  LaunchPlan arguments = Plan(false);
  arguments.program.argv.back().append("2");
  EXPECT_THAT(Differences(Plan(false), arguments),
              ::testing::ElementsAre("the program's arguments"));
  LaunchPlan split = Plan(false);  // "--lr" "1" and "--lr1" are different vectors
  split.program.argv = {"/usr/bin/python3", "-u", "a/train.py", "--lr1"};
  EXPECT_THAT(Differences(Plan(false), split), ::testing::ElementsAre("the program's arguments"));
  LaunchPlan size = Plan(false);
  size.local_size = 3;
  EXPECT_THAT(Differences(Plan(false), size), ::testing::ElementsAre("--nproc-per-node"));
}

TEST(PlanDigestTest, BuildAndForeignVariablesCountForOurTrainerOnly) {
  EXPECT_EQ(PlanDigest(Plan(true), "none", "1").size(),
            PlanDigest(Plan(false), "x", "2").size() + 2);
}

TEST(PlanDigestTest, BaseNames) {
  EXPECT_EQ(BaseName("a/b.py"), "b.py");
  EXPECT_EQ(BaseName("b"), "b");
}

}  // namespace
}  // namespace lr::launcher
