#include "worker/train/train_command_line.h"

#include "common/base/text.h"
#include "common/io/directory_lock.h"
#include "tests/worker/train/parse_support.h"
#include "worker/policies/act/act_config.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using testing::Arguments;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::NotesOf;

class TrainCommandLineTest : public testing::ParseTest {};

TEST_F(TrainCommandLineTest, BothFormsOfAFlagAreTheSame) {
  const ParsedConfig parsed =
      Parsed(Minimal({"--batch_size", "4", "--policy.dim_model=64", "--policy.n_heads", "4"}));
  EXPECT_EQ(parsed.config.batch_size, 4);
  const auto& act = dynamic_cast<const ActConfig&>(*parsed.config.policy);
  EXPECT_EQ(act.dim_model, 64);
  EXPECT_EQ(act.n_heads, 4);
  EXPECT_TRUE(parsed.Given("batch_size"));
  EXPECT_TRUE(parsed.Given("policy.dim_model"));
  EXPECT_FALSE(parsed.Given("steps"));
}

TEST_F(TrainCommandLineTest, DefaultsAreThoseOfTheDocumentation) {
  const TrainConfig config = Parsed(Minimal()).config;
  EXPECT_EQ(config.steps, 100000);
  EXPECT_EQ(config.batch_size, 8);
  EXPECT_EQ(config.save_freq, 20000);
  EXPECT_EQ(config.log_freq, 200);
  EXPECT_EQ(config.seed, 1000);
  EXPECT_EQ(config.num_workers, 4);
  EXPECT_EQ(config.tf32, true);
  EXPECT_EQ(config.job_name, "act");
  EXPECT_FALSE(config.policy->push_to_hub);
}

TEST_F(TrainCommandLineTest, TheLastOfRepeatedFlagsCounts) {
  EXPECT_EQ(Parsed(Minimal({"--steps=5", "--steps=7"})).config.steps, 7);
}

TEST_F(TrainCommandLineTest, ListsMapsAndNull) {
  const TrainConfig config = Parsed(Minimal({"--dataset.episodes=[0, 2]",
                                             "--seed=null",
                                             "--job_name=007",
                                             "--tf32=null",
                                             "--policy.tags=[arm, left]"}))
                                 .config;
  EXPECT_EQ(config.dataset.episodes, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(config.seed, std::nullopt);
  EXPECT_EQ(config.tf32, std::nullopt);
  EXPECT_EQ(config.job_name, "007");
  EXPECT_EQ(config.policy->tags, (std::vector<std::string>{"arm", "left"}));
}

struct Refusal {
  const char* name;
  std::vector<std::string> args;
  std::vector<std::string> says;
};

class Refused : public TrainCommandLineTest, public ::testing::WithParamInterface<Refusal> {};

TEST_P(Refused, WithAMessageThatHelps) {
  const Result<ParsedConfig> parsed = Parse(GetParam().args);
  ASSERT_FALSE(parsed.ok());
  for (const std::string& part : GetParam().says) {
    EXPECT_THAT(parsed.status().message(), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    TrainCommandLineTest,
    Refused,
    ::testing::Values(
        Refusal{"misspelt_flag", {"--batch_sise=4"}, {"--batch_sise=4", "mean --batch_size?"}},
        Refusal{"misspelt_group", {"--polcy.type=act"}, {"mean --policy.type?"}},
        Refusal{"misspelt_policy_field",
                {"--policy.type=act", "--policy.dim_modl=4"},
                {"--policy.dim_modl=4", "mean --policy.dim_model?"}},
        Refusal{"misspelt_optimizer_field",
                {"--policy.type=act", "--optimizer.betass=[0.9, 0.9]"},
                {"--optimizer.betass", "mean --optimizer.betas?"}},
        Refusal{"abbreviation", {"--batch=4"}, {"unrecognized arguments"}},
        Refusal{"positional", {"train"}, {"'train'"}},
        Refusal{"value_missing", {"--steps"}, {"--steps needs a value"}},
        Refusal{"next_is_a_flag", {"--resume", "--steps=3"}, {"--resume needs a value"}},
        Refusal{"float_for_int", {"--policy.type=act", "--steps=1e5"}, {"--steps=1e5", "whole"}},
        Refusal{"bool", {"--policy.type=act", "--save_checkpoint=1"}, {"--save_checkpoint=1"}},
        Refusal{"enum",
                {"--policy.type=act", "--checkpoint_format=zip"},
                {"--checkpoint_format=zip", "safetensors_dcp"}},
        Refusal{"no_policy", {"--dataset.repo_id=a/b"}, {"--policy.type=act", "--policy.path"}},
        Refusal{"no_dataset", {"--policy.type=act"}, {"--dataset.repo_id is required"}},
        Refusal{"unknown_policy", {"--policy.type=acct"}, {"unknown policy", "mean act"}},
        Refusal{"known_policy",
                {"--policy.type=smolvla"},
                {"known upstream, not available in this build"}},
        Refusal{"type_and_path",
                {"--policy.type=act", "--policy.path=x"},
                {"Cannot specify both --policy.path=x and --policy.type=act"}},
        Refusal{"policy_field_without_policy", {"--policy.dim_model=4"}, {"--policy.type=act"}},
        Refusal{"simulator", {"--env.type=pusht", "--policy.type=act"}, {"--env", "simulator"}},
        Refusal{"reward_model", {"--reward_model.type=sarm"}, {"--reward_model"}},
        Refusal{"plugins", {"--env.discover_packages_path=x"}, {"Python plugins"}},
        Refusal{"include", {"--policy=include act.yaml"}, {"includes are not supported"}},
        Refusal{"scheduler_type",
                {"--policy.type=act", "--scheduler.type=cosine"},
                {"--scheduler.type=cosine", "cosine_decay_with_warmup"}},
        Refusal{"scheduler_without_type",
                {"--policy.type=act", "--dataset.repo_id=a/b", "--scheduler.num_warmup_steps=4"},
                {"--scheduler.type"}},
        Refusal{"resume_from_nowhere", {"--resume=true"}, {"--config_path", "--output_dir"}},
        Refusal{"toml", {"--config_path=x.toml"}, {".json, .yaml or .yml"}}),
    [](const auto& info) { return info.param.name; });

TEST_F(TrainCommandLineTest, EnumsTakeTheNameOfPythonsMember) {
  const Result<ParsedConfig> parsed = Parse(Minimal({"--checkpoint_format=SAFETENSORS"}));
  EXPECT_THAT(parsed, IsOk());
}

TEST_F(TrainCommandLineTest, HelpListsEveryFlagWithinAHundredColumns) {
  for (const char* flag : {"--help", "-h"}) {
    const ParsedConfig parsed = Parsed({"--batch_size=x", flag});
    EXPECT_THAT(parsed.help,
                AllOf(HasSubstr("--batch_size=int"),
                      HasSubstr("--policy.chunk_size=int"),
                      HasSubstr("--accelerator.gradient_accumulation.steps"),
                      HasSubstr("--config_path"),
                      HasSubstr("--peft.target_modules")));
    for (const std::string& line : Split(parsed.help, '\n')) {
      EXPECT_LE(line.size(), 100U) << line;
    }
  }
}

TEST_F(TrainCommandLineTest, ThePresetComesFromThePolicy) {
  const ParsedConfig parsed = Parsed(Minimal({"--policy.optimizer_lr=2e-5"}));
  ASSERT_TRUE(parsed.config.optimizer.has_value());
  EXPECT_EQ(parsed.config.optimizer->type, "adamw");
  EXPECT_EQ(parsed.config.optimizer->lr, 2e-5);
  EXPECT_EQ(parsed.config.optimizer->weight_decay, 1e-4);
  EXPECT_FALSE(parsed.config.scheduler.has_value());
}

TEST_F(TrainCommandLineTest, AnExplicitRateGoesOnTopOfThePresetAndReachesTheBackbone) {
  const ParsedConfig parsed = Parsed(Minimal({"--optimizer.lr=2e-5"}));
  const auto& act = dynamic_cast<const ActConfig&>(*parsed.config.policy);
  EXPECT_EQ(parsed.config.optimizer->lr, 2e-5);
  EXPECT_EQ(parsed.config.optimizer->weight_decay, 1e-4) << "the rest of the preset stays";
  EXPECT_EQ(act.optimizer_lr_backbone, 2e-5);
  EXPECT_EQ(act.optimizer_lr, 1e-5);
  EXPECT_THAT(NotesOf(parsed),
              AllOf(HasSubstr("--optimizer.lr=2e-5 replaces the policy's preset"),
                    HasSubstr("policy.optimizer_lr_backbone follows --optimizer.lr=2e-05")));
}

TEST_F(TrainCommandLineTest, AnExplicitBackboneRateStays) {
  const ParsedConfig parsed =
      Parsed(Minimal({"--optimizer.lr=2e-5", "--policy.optimizer_lr_backbone=3e-6"}));
  EXPECT_EQ(dynamic_cast<const ActConfig&>(*parsed.config.policy).optimizer_lr_backbone, 3e-6);
}

TEST_F(TrainCommandLineTest, AGroupGivenAsAMapCountsAsGivenFieldByField) {
  const ParsedConfig parsed = Parsed(Minimal({R"(--optimizer={"lr": 2e-5})"}));
  EXPECT_TRUE(parsed.Given("optimizer.lr"));
  EXPECT_EQ(dynamic_cast<const ActConfig&>(*parsed.config.policy).optimizer_lr_backbone, 2e-5);
}

TEST_F(TrainCommandLineTest, AnotherOptimizerTypeReplacesThePreset) {
  const ParsedConfig parsed = Parsed(Minimal({"--optimizer.lr=0.1", "--optimizer.type=sgd"}));
  EXPECT_EQ(parsed.config.optimizer->type, "sgd");
  EXPECT_EQ(parsed.config.optimizer->lr, 0.1);
  EXPECT_EQ(parsed.config.optimizer->weight_decay, 0.0) << "sgd's own default";
}

TEST_F(TrainCommandLineTest, WithoutPresetsAnOptimizerIsNeededButNoSchedule) {
  EXPECT_THAT(Parse(Minimal({"--use_policy_training_preset=false"})),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--optimizer.type")));
  const ParsedConfig parsed =
      Parsed(Minimal({"--use_policy_training_preset=false", "--optimizer.type=adamw"}));
  EXPECT_EQ(parsed.config.optimizer->weight_decay, 1e-2);
  EXPECT_EQ(dynamic_cast<const ActConfig&>(*parsed.config.policy).optimizer_lr_backbone, 1e-5);
}

TEST_F(TrainCommandLineTest, PublishingWithoutATargetIsOffUnlessItWasAskedFor) {
  const ParsedConfig parsed = Parsed(Minimal());
  EXPECT_FALSE(parsed.config.policy->push_to_hub);
  EXPECT_THAT(NotesOf(parsed), HasSubstr("--policy.repo_id is not given"));
  EXPECT_THAT(
      Parse(Minimal({"--policy.push_to_hub=true"})),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("--policy.repo_id"), HasSubstr("--policy.push_to_hub=false"))));
  EXPECT_EQ(NotesOf(Parsed(Minimal({"--policy.push_to_hub=false"}))), "");
}

TEST_F(TrainCommandLineTest, TheDefaultFolderIsMadeFromTheClockAndTheName) {
  const ParsedConfig parsed =
      Parsed({"--dataset.repo_id=a/b", "--policy.type=act", "--job_name=reach"});
  EXPECT_EQ(parsed.config.output_dir, "outputs/train/2026-11-30/07-05-09_reach");
  EXPECT_TRUE(parsed.output_dir_is_default);
  EXPECT_FALSE(Parsed(Minimal()).output_dir_is_default);
}

TEST_F(TrainCommandLineTest, AnExistingFolderIsRefusedUnlessTheSameRunLockedIt) {
  const Arguments args = {"--dataset.repo_id=a/b", "--policy.type=act", "--output_dir=" + folder_};
  EXPECT_THAT(
      Parse(args),
      StatusIs(StatusCode::kAlreadyExists, AllOf(HasSubstr(folder_), HasSubstr("--resume=true"))));
  ASSERT_THAT(DirectoryLock::Acquire(folder_, ThisProcess("run-a")), IsOk());
  context_.run_id = "run-b";
  EXPECT_FALSE(Parse(args).ok());
  context_.run_id = "run-a";
  EXPECT_THAT(Parse(args), IsOk()) << "a restart before the first checkpoint";
}

TEST_F(TrainCommandLineTest, AFileIsTheBaseAndFlagsGoOnTop) {
  const std::string file = Write("run.yaml",
                                 "dataset: {repo_id: a/b, episodes: [1, 2]}\n"
                                 "policy:\n  type: act\n  dim_model: 64\n  dropout: 0.2\n"
                                 "output_dir: null\n"
                                 "job_name: null\n"
                                 "steps: 50\nbatch_size: 2\n");
  const ParsedConfig parsed =
      Parsed({"--config_path=" + file, "--batch_size=3", "--policy.dropout=0.3"});
  EXPECT_EQ(parsed.config.steps, 50);
  EXPECT_EQ(parsed.config.batch_size, 3);
  const auto& act = dynamic_cast<const ActConfig&>(*parsed.config.policy);
  EXPECT_EQ(act.dim_model, 64);
  EXPECT_EQ(act.dropout, 0.3);
  EXPECT_FALSE(parsed.Given("steps")) << "given on the command line only";
  const ParsedConfig again = Parsed({"--config_path=" + file, "--policy.type=act"});
  EXPECT_EQ(dynamic_cast<const ActConfig&>(*again.config.policy).dim_model, 64)
      << "naming the file's own type changes nothing";
}

TEST_F(TrainCommandLineTest, JsonAndYamlFilesAreEqual) {
  const std::string yaml =
      Write("a.yaml", "dataset: {repo_id: a/b}\npolicy: {type: act}\nsteps: 5\n");
  const std::string json =
      Write("a.json", R"({"dataset": {"repo_id": "a/b"}, "policy": {"type": "act"}, "steps": 5})");
  EXPECT_EQ(ToJson(Parsed({"--config_path=" + yaml}).config).dump(),
            ToJson(Parsed({"--config_path=" + json}).config).dump());
}

TEST_F(TrainCommandLineTest, AnUnknownKeyOfAPersonsFileIsAnErrorThatNamesIt) {
  const std::string file = Write("run.yaml", "dataset: {repo_id: a/b, splits: 3}\n");
  EXPECT_THAT(Parse({"--config_path=" + file, "--policy.type=act"}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("run.yaml"), HasSubstr("dataset.splits"))));
  const std::string policy = Write("p.yaml", "policy: {type: act, heads: 3}\n");
  EXPECT_THAT(Parse({"--config_path=" + policy, "--dataset.repo_id=a/b"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("heads")));
}

TEST_F(TrainCommandLineTest, AFilesOptimizerIsReplacedByThePresetAndSaysSo) {
  const std::string file =
      Write("run.yaml", "dataset: {repo_id: a/b}\npolicy: {type: act}\noptimizer: {type: sgd}\n");
  const ParsedConfig preset = Parsed({"--config_path=" + file});
  EXPECT_EQ(preset.config.optimizer->type, "adamw");
  EXPECT_THAT(NotesOf(preset), HasSubstr("use_policy_training_preset=false keeps them"));
  const ParsedConfig kept = Parsed({"--config_path=" + file, "--use_policy_training_preset=false"});
  EXPECT_EQ(kept.config.optimizer->type, "sgd");
}

TEST_F(TrainCommandLineTest, ResumeInAPersonsFileIsRefused) {
  const std::string file = Write("run.yaml", "resume: true\n");
  EXPECT_THAT(Parse({"--config_path=" + file}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--resume=true")));
}

TEST_F(TrainCommandLineTest, WarnsOfSettingsThatDoNotDoWhatTheySeemTo) {
  const ParsedConfig parsed = Parsed(Minimal(
      {"--accelerator.gradient_accumulation.steps=3", "--save_freq=10", "--policy.use_amp=true"}));
  EXPECT_THAT(NotesOf(parsed),
              AllOf(HasSubstr("save_freq=10 is not a multiple"),
                    HasSubstr("--accelerator.mixed_precision")));
}

TEST_F(TrainCommandLineTest, WhatIsNotBuiltIsRefusedInOneGo) {
  EXPECT_THAT(
      Parse(Minimal({"--ema.enable=true", "--wandb.enable=true", "--dataset.streaming=true"})),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("--ema.enable=true"),
                     HasSubstr("--trackio.enable=true"),
                     HasSubstr("--dataset.streaming=true"))));
}

}  // namespace
}  // namespace lr::worker
