#include "common/contract/foreign_environment.h"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/contract/foreign_inventory.h"

namespace lr {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const ResolvedEngineFacts kPlainRun = {
    .mixed_precision = "no", .sharded = false, .device = "cpu", .gradient_accumulation_steps = 1};
const ResolvedEngineFacts kShardedBf16 = {
    .mixed_precision = "bf16", .sharded = true, .device = "cuda", .gradient_accumulation_steps = 1};

std::vector<std::string> Names(const std::vector<ForeignVariable>& variables) {
  std::vector<std::string> names;
  for (const ForeignVariable& variable : variables) {
    names.push_back(variable.name);
  }
  return names;
}

std::vector<std::string> Offenders(const EnvironmentSnapshot& environment,
                                   const ResolvedEngineFacts& facts) {
  return Names(CheckForeignEnvironment(environment, facts).offenders);
}

/// What a real `accelerate launch` added to the environment of its worker, by the name of the
/// option set.
EnvironmentSnapshot Captured(const std::string& config) {
  std::ifstream file(LR_TEST_DATA "/launcher/accelerate_envs.json");
  const nlohmann::json document = nlohmann::json::parse(file);
  EnvironmentSnapshot environment;
  for (const auto& [name, value] : document.at("configs").at(config).at("env_added").items()) {
    environment[name] = value.get<std::string>();
  }
  return environment;
}

// A-9, first environment: accelerate launch with nothing but neutral values starts without any
// complaint.
TEST(ForeignEnvironmentTest, PlainAccelerateLaunchStartsWithoutComplaint) {
  for (const char* config : {"plain",
                             "num_processes_2",
                             "multi_gpu_2",
                             "multi_gpu_2_mp_no",
                             "omp3",
                             "gpu_ids",
                             "ports",
                             "file_plain"}) {
    for (const ResolvedEngineFacts& facts : {kPlainRun, kShardedBf16, ResolvedEngineFacts{}}) {
      const ForeignEnvironmentReport report = CheckForeignEnvironment(Captured(config), facts);
      EXPECT_TRUE(report.quiet()) << config;
      EXPECT_EQ(ForeignWarningText(report), "") << config;
      EXPECT_EQ(ForeignEnvironmentDigest(report), "none") << config;
    }
  }
}

TEST(ForeignEnvironmentTest, DebuggingAndAffinityAreHarmless) {
  EXPECT_TRUE(CheckForeignEnvironment(Captured("cpu_affinity_debug"), kPlainRun).quiet());
}

// A-9, second: --mixed_precision=bf16.
TEST(ForeignEnvironmentTest, Bf16IsAcceptedWhenOurOptionAgrees) {
  for (const char* config : {"multi_gpu_2_bf16", "single_bf16", "file_bf16"}) {
    EXPECT_TRUE(CheckForeignEnvironment(Captured(config), kShardedBf16).quiet()) << config;
    EXPECT_THAT(Offenders(Captured(config), kPlainRun), ElementsAre("ACCELERATE_MIXED_PRECISION"))
        << config;
  }
}

TEST(ForeignEnvironmentTest, ConflictsWaitForTheTrainerWhenTheConfigurationIsUnknown) {
  EXPECT_TRUE(CheckForeignEnvironment(Captured("single_bf16"), {}).quiet());
  EXPECT_TRUE(
      CheckForeignEnvironment({{"FSDP_VERSION", "2"}, {"ACCELERATE_USE_CPU", "1"}}, {}).quiet());
}

// A-9, third: a typical FSDP file.
TEST(ForeignEnvironmentTest, FsdpFileIsRefusedWithItsCompanions) {
  const EnvironmentSnapshot environment = Captured("file_fsdp2");
  EXPECT_THAT(Offenders(environment, kShardedBf16),
              AllOf(Contains("ACCELERATE_USE_FSDP"), Contains("FSDP_VERSION")));
  const ForeignEnvironmentReport unsharded =
      CheckForeignEnvironment(environment, {.mixed_precision = "bf16", .sharded = false});
  EXPECT_THAT(Names(unsharded.offenders), ElementsAre("ACCELERATE_USE_FSDP"));
  EXPECT_THAT(Names(unsharded.warnings), Contains("FSDP_AUTO_WRAP_POLICY"));
}

TEST(ForeignEnvironmentTest, EveryOtherCapturedEnvironmentIsRefusedByTheRightNames) {
  EXPECT_THAT(Offenders(Captured("fsdp1_flags"), kPlainRun), ElementsAre("ACCELERATE_USE_FSDP"));
  EXPECT_THAT(Offenders(Captured("fsdp_parallelism"), kPlainRun),
              ElementsAre("ACCELERATE_USE_FSDP", "ACCELERATE_USE_PARALLELISM_CONFIG"));
  EXPECT_THAT(Offenders(Captured("dynamo_inductor"), kPlainRun),
              ElementsAre("ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_DYNAMO_MODE"));
  EXPECT_THAT(Offenders(Captured("megatron"), kPlainRun),
              ElementsAre("ACCELERATE_USE_MEGATRON_LM"));
  EXPECT_THAT(CheckForeignEnvironment(Captured("megatron"), kPlainRun).companions,
              Contains("MEGATRON_LM_TP_DEGREE"));
}

TEST(ForeignEnvironmentTest, CpuChoiceConflictsOnlyWithAnotherDevice) {
  const EnvironmentSnapshot environment = Captured("cpu_num_processes_2");
  EXPECT_TRUE(CheckForeignEnvironment(environment, kPlainRun).quiet());
  EXPECT_THAT(Offenders(environment, kShardedBf16), ElementsAre("ACCELERATE_USE_CPU"));
  EXPECT_THAT(Offenders({{"ACCELERATE_TORCH_DEVICE", "cuda:1"}}, kShardedBf16), IsEmpty());
  EXPECT_THAT(Offenders({{"ACCELERATE_TORCH_DEVICE", "cuda:1"}}, kPlainRun),
              ElementsAre("ACCELERATE_TORCH_DEVICE"));
}

TEST(ForeignEnvironmentTest, PresenceAloneIsEnoughForThePresentClass) {
  for (const internal::ForeignEntry& entry : internal::ForeignInventory()) {
    if (entry.rule == internal::ForeignRule::kPresent) {
      EXPECT_THAT(Offenders({{std::string(entry.name), ""}}, {}),
                  ElementsAre(std::string(entry.name)));
    }
  }
}

TEST(ForeignEnvironmentTest, InventoryNamesAreUniqueAndExplainThemselves) {
  std::set<std::string_view> seen;
  for (const internal::ForeignEntry& entry : internal::ForeignInventory()) {
    EXPECT_TRUE(seen.insert(entry.name).second) << entry.name;
    if (entry.rule != internal::ForeignRule::kHarmless) {
      EXPECT_FALSE(entry.reason.empty()) << entry.name;
      EXPECT_FALSE(entry.replacement.empty()) << entry.name;
    }
  }
}

TEST(ForeignEnvironmentTest, ActivatorsSetToFalseAreNeutral) {
  for (const char* value : {"false", "False", "0", "no", ""}) {
    EXPECT_THAT(
        Offenders({{"ACCELERATE_USE_DEEPSPEED", value}, {"ACCELERATE_USE_MEGATRON_LM", value}},
                  kPlainRun),
        IsEmpty());
  }
  EXPECT_THAT(Offenders({{"ACCELERATE_USE_DEEPSPEED", "true"}}, kPlainRun),
              ElementsAre("ACCELERATE_USE_DEEPSPEED"));
}

TEST(ForeignEnvironmentTest, Fp8AgreesWithNothing) {
  EXPECT_THAT(Offenders({{"ACCELERATE_MIXED_PRECISION", "fp8"}}, {}),
              ElementsAre("ACCELERATE_MIXED_PRECISION"));
  EXPECT_THAT(Offenders({{"ACCELERATE_FP8_FORMAT", "HYBRID"}}, {}),
              ElementsAre("ACCELERATE_FP8_FORMAT"));
}

TEST(ForeignEnvironmentTest, SageMakerTypeAndDowncastConflictUnlessNeutral) {
  EXPECT_THAT(Offenders({{"ACCELERATE_USE_SAGEMAKER", "true"},
                         {"ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE", "NO"}},
                        kPlainRun),
              IsEmpty());
  EXPECT_THAT(Offenders({{"ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE", "DATA_PARALLEL"}}, kPlainRun),
              ElementsAre("ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE"));
  EXPECT_THAT(Offenders({{"ACCELERATE_DOWNCAST_BF16", "false"}}, kPlainRun), IsEmpty());
  EXPECT_THAT(Offenders({{"ACCELERATE_DOWNCAST_BF16", "true"}}, kPlainRun),
              ElementsAre("ACCELERATE_DOWNCAST_BF16"));
}

TEST(ForeignEnvironmentTest, UnknownNamesWarnAndAreRefusedOnRequest) {
  const EnvironmentSnapshot environment = {
      {"ACCELERATE_NEW_THING", "1"}, {"PATH", "/bin"}, {"FSDP_OF_SOMEBODY", "x"}};
  EXPECT_THAT(Names(CheckForeignEnvironment(environment, kPlainRun).warnings),
              ElementsAre("ACCELERATE_NEW_THING"));
  EXPECT_FALSE(CheckForeignEnvironment(environment, kPlainRun).refused());
  EXPECT_TRUE(CheckForeignEnvironment(environment, kPlainRun, ForeignPolicy::kRefuse).refused());
}

TEST(ForeignEnvironmentTest, WarnPolicyRefusesNothing) {
  const ForeignEnvironmentReport report =
      CheckForeignEnvironment({{"ACCELERATE_USE_FSDP", "true"}}, kPlainRun, ForeignPolicy::kWarn);
  EXPECT_FALSE(report.refused());
  EXPECT_THAT(ForeignWarningText(report), HasSubstr("ACCELERATE_USE_FSDP=true"));
}

TEST(ForeignEnvironmentTest, OnlyTrueWordsAcknowledge) {
  for (const char* word : {"1", "true", "TRUE", "yes", "On"}) {
    EnvironmentSnapshot environment = {{"ACCELERATE_USE_FSDP", "true"},
                                       {"LEROBOT_ALLOW_ACCELERATE_ENV", word}};
    EXPECT_FALSE(CheckForeignEnvironment(environment, kPlainRun).refused()) << word;
    environment = {{"ACCELERATE_USE_FSDP", "true"}, {"LR_ALLOW_ACCELERATE_ENV", word}};
    EXPECT_FALSE(CheckForeignEnvironment(environment, kPlainRun).refused()) << word;
  }
  for (const char* word : {"", "0", "false", "no", "off", "maybe"}) {
    const EnvironmentSnapshot environment = {{"ACCELERATE_USE_FSDP", "true"},
                                             {"LEROBOT_ALLOW_ACCELERATE_ENV", word}};
    EXPECT_TRUE(CheckForeignEnvironment(environment, kPlainRun).refused()) << word;
  }
}

TEST(ForeignEnvironmentTest, RefusalNamesEveryVariableItsValueTheReasonAndBothWaysOut) {
  const ForeignEnvironmentReport report =
      CheckForeignEnvironment({{"ACCELERATE_USE_FSDP", "true"},
                               {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4"},
                               {"KMP_BLOCKTIME", "1"}},
                              kPlainRun);
  EXPECT_THAT(Names(report.offenders),
              ElementsAre("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "ACCELERATE_USE_FSDP"));
  EXPECT_THAT(ForeignRefusalText(report),
              AllOf(HasSubstr("ACCELERATE_USE_FSDP=true"),
                    HasSubstr("ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4"),
                    HasSubstr("--parallelism.dp_shard=N (now not sharded)"),
                    HasSubstr("--accelerator.gradient_accumulation.steps=K (now 1)"),
                    HasSubstr("LEROBOT_ALLOW_ACCELERATE_ENV=1"),
                    HasSubstr("KMP_BLOCKTIME")));
}

TEST(ForeignEnvironmentTest, SecretsAreNeverShown) {
  const ForeignEnvironmentReport report = CheckForeignEnvironment(
      {{"ACCELERATE_HUB_TOKEN", "hf_abc"}}, kPlainRun, ForeignPolicy::kRefuse);
  EXPECT_THAT(ForeignRefusalText(report),
              AllOf(HasSubstr("ACCELERATE_HUB_TOKEN=***"), Not(HasSubstr("hf_abc"))));
  EXPECT_TRUE(LooksSecret("AWS_SECRET_ACCESS_KEY"));
  EXPECT_TRUE(LooksSecret("hf_token"));
  EXPECT_FALSE(LooksSecret("TOKENIZERS_PARALLELISM"));
  EXPECT_FALSE(LooksSecret("MONKEY_BUSINESS"));
}

TEST(ForeignEnvironmentTest, AcknowledgedRunSaysIgnoredNotApplied) {
  const ForeignEnvironmentReport report = CheckForeignEnvironment(
      {{"ACCELERATE_USE_FSDP", "true"}, {"LEROBOT_ALLOW_ACCELERATE_ENV", "1"}}, kPlainRun);
  EXPECT_THAT(ForeignWarningText(report),
              AllOf(HasSubstr("ignored"),
                    HasSubstr("LEROBOT_ALLOW_ACCELERATE_ENV=1"),
                    HasSubstr("ACCELERATE_USE_FSDP")));
}

TEST(ForeignEnvironmentTest, DigestTellsNamesAndValuesApart) {
  const auto digest = [](const EnvironmentSnapshot& environment) {
    return ForeignEnvironmentDigest(CheckForeignEnvironment(environment, kPlainRun));
  };
  EXPECT_THAT(digest({{"ACCELERATE_USE_FSDP", "true"}}), HasSubstr("ACCELERATE_USE_FSDP"));
  EXPECT_THAT(digest({{"ACCELERATE_USE_FSDP", "true"}}),
              Not(Eq(digest({{"ACCELERATE_USE_FSDP", "1"}}))));
  EXPECT_EQ(digest({{"ACCELERATE_USE_FSDP", "true"}}),
            digest({{"ACCELERATE_USE_FSDP", "true"}, {"HOME", "/x"}}));
}

}  // namespace
}  // namespace lr
