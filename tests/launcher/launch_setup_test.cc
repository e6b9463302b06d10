#include "launcher/launch_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kRandom = "0123456789abcdef0123456789abcdef";

LaunchSetup Prepare(std::vector<std::string> arguments, EnvironmentSnapshot environment = {}) {
  arguments.insert(arguments.begin(), "lr-launch");
  environment.emplace("PATH", "/usr/bin:/bin");
  return PrepareLaunch(arguments, environment, kRandom);
}

EarlyEnd End(const std::vector<std::string>& arguments, EnvironmentSnapshot environment = {}) {
  const LaunchSetup setup = Prepare(arguments, std::move(environment));
  const auto* end = std::get_if<EarlyEnd>(&setup);
  return end != nullptr ? *end : EarlyEnd{.exit_code = -1, .out = "", .err = "it would start"};
}

TEST(LaunchSetupTest, HelpAndVersionGoToStdout) {
  EXPECT_THAT(End({"--help"}).out, HasSubstr("--nproc-per-node"));
  EXPECT_THAT(End({"--version"}).out, HasSubstr("lr-launch " + BuildVersion()));
  EXPECT_EQ(End({"--help"}).exit_code, 0);
}

TEST(LaunchSetupTest, MistakesAreUsageErrors) {
  const EarlyEnd unknown = End({"--nproc-per-nodes=2", "/bin/true"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean --nproc-per-node?"));
  EXPECT_EQ(End({"no-such-program-anywhere"}).exit_code, 2);
  EXPECT_EQ(End({"--accelerate-env=maybe", "/bin/true"}).exit_code, 2);
}

TEST(LaunchSetupTest, EngineOptionsAreRefusedAsConfiguration) {
  EXPECT_EQ(End({"--use_fsdp", "/bin/true"}).exit_code, 78);
}

TEST(LaunchSetupTest, DryRunStartsNothing) {
  const EarlyEnd end = End({"--dry-run", "--nproc-per-node=2", "/bin/true"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.out, AllOf(HasSubstr("workers   2 here"), HasSubstr("LOCAL_RANK=1")));
  EXPECT_THAT(End({"--dry-run=json", "/bin/true"}).out, HasSubstr("\"workers_here\": 1"));
  EXPECT_EQ(End({"--dry-run=xml", "/bin/true"}).exit_code, 2);
}

TEST(LaunchSetupTest, PlanWithNotes) {
  const LaunchSetup setup = Prepare({"--nproc_per_node", "2", "/bin/true", "--flag"});
  const auto* prepared = std::get_if<PreparedLaunch>(&setup);
  ASSERT_NE(prepared, nullptr);
  EXPECT_EQ(prepared->plan.local_size, 2);
  EXPECT_EQ(prepared->plan.run_id, "0123456789ab");
  EXPECT_EQ(prepared->foreign_digest, "not checked");
  EXPECT_THAT(prepared->lines, Contains(HasSubstr("OMP_NUM_THREADS is set to 1")));
}

TEST(LaunchSetupTest, ForeignVariablesConcernOtherProgramsOnlyOnRequest) {
  const EnvironmentSnapshot environment = {{"ACCELERATE_USE_FSDP", "true"}};
  const LaunchSetup setup = Prepare({"/bin/true"}, environment);
  EXPECT_TRUE(std::holds_alternative<PreparedLaunch>(setup));
  const EarlyEnd refused = End({"--accelerate-env=refuse", "/bin/true"}, environment);
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_THAT(refused.err, HasSubstr("ACCELERATE_USE_FSDP"));
  const LaunchSetup warned = Prepare({"--accelerate-env=warn", "/bin/true"}, environment);
  ASSERT_TRUE(std::holds_alternative<PreparedLaunch>(warned));
  EXPECT_THAT(std::get<PreparedLaunch>(warned).lines, Contains(HasSubstr("ACCELERATE_USE_FSDP")));
}

}  // namespace
}  // namespace lr::launcher
