#include "common/contract/worker_environment.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace lr {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<WorkerEnvironment> Read(const Variables& variables) {
  return ReadWorkerEnvironment([&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

Variables Launched() {
  return {{"RANK", "3"},
          {"LOCAL_RANK", "1"},
          {"WORLD_SIZE", "4"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

TEST(WorkerEnvironmentTest, NoVariablesAreOneProcess) {
  const Result<WorkerEnvironment> environment = Read({});
  ASSERT_THAT(environment, IsOk());
  EXPECT_EQ(environment->world_size, 1);
  EXPECT_FALSE(environment->launched());
}

TEST(WorkerEnvironmentTest, ReadsEverythingALauncherSets) {
  Variables variables = Launched();
  variables.merge(Variables{{"LOCAL_WORLD_SIZE", "2"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_RUN_ID", "outer"},
                            {"TORCHELASTIC_ERROR_FILE", "/e.json"},
                            {"LR_RUN_ID", "run"},
                            {"LR_CONTROL_SOCKET", "/s"},
                            {"LR_RESUME_FROM", "/c"}});
  const Result<WorkerEnvironment> environment = Read(variables);
  ASSERT_THAT(environment, IsOk());
  EXPECT_EQ(environment->rank, 3);
  EXPECT_EQ(environment->local_rank, 1);
  EXPECT_EQ(environment->world_size, 4);
  EXPECT_EQ(environment->local_world_size, 2);
  EXPECT_EQ(environment->master_addr, "10.0.0.1");
  EXPECT_EQ(environment->master_port, 29500);
  EXPECT_TRUE(environment->use_agent_store);
  EXPECT_EQ(environment->restart_count, 2);
  EXPECT_EQ(environment->run_id, "run");
  EXPECT_EQ(environment->control_socket, "/s");
  EXPECT_EQ(environment->resume_from, "/c");
  EXPECT_EQ(environment->error_file, "/e.json");
}

TEST(WorkerEnvironmentTest, FiveVariablesAreEnough) {
  const Result<WorkerEnvironment> environment = Read(Launched());
  ASSERT_THAT(environment, IsOk());
  EXPECT_EQ(environment->local_world_size, 2);
  EXPECT_FALSE(environment->use_agent_store);
}

TEST(WorkerEnvironmentTest, IncompleteSetNamesWhatIsMissing) {
  EXPECT_THAT(Read({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("RANK, WORLD_SIZE set"),
                             HasSubstr("LOCAL_RANK, MASTER_ADDR, MASTER_PORT"))));
}

TEST(WorkerEnvironmentTest, ImpossibleValuesNameTheVariable) {
  const auto with = [](const std::string& name, const std::string& value) {
    Variables variables = Launched();
    variables[name] = value;
    return Read(variables);
  };
  EXPECT_THAT(with("RANK", "4"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("RANK=4")));
  EXPECT_THAT(with("RANK", "-1"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("RANK='-1'")));
  EXPECT_THAT(with("WORLD_SIZE", "two"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("WORLD_SIZE='two'")));
  EXPECT_THAT(with("MASTER_PORT", "70000"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("MASTER_PORT='70000'")));
  EXPECT_THAT(with("LOCAL_WORLD_SIZE", "1"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("LOCAL_WORLD_SIZE=1")));
  EXPECT_THAT(with("LOCAL_WORLD_SIZE", "8"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("LOCAL_WORLD_SIZE=8")));
}

}  // namespace
}  // namespace lr
