// --resume=true and --policy.path: which files are found, and what of the command line still
// counts.
#include "tests/worker/train/parse_support.h"
#include "worker/policies/act/act_config.h"
#include "worker/train/config_files.h"
#include "worker/train/train_command_line.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using testing::Arguments;
using ::testing::HasSubstr;
using testing::NotesOf;

class CheckpointTest : public testing::ParseTest {
 protected:
  /// A run's output folder with the checkpoints 2 and 4, `last` pointing to 4.
  CheckpointTest() : run_(folder_ + "/run") {
    SaveStep("000002");
    SaveStep("000004");
    fs::create_directory_symlink("000004", run_ + "/checkpoints/last");
    newest_ = run_ + "/checkpoints/000004";
  }

  void SaveStep(const std::string& step) {
    TrainConfig config = Parsed(Minimal({"--steps=10", "--batch_size=3", "--seed=5"})).config;
    config.output_dir = run_;
    const std::string folder = "run/checkpoints/" + step + "/pretrained_model/";
    Write(folder + "train_config.json", DumpConfigFile(ToJson(config)));
    Write(folder + "config.json", DumpConfigFile(ToJson(*config.policy)));
    Write(folder + "model.safetensors", "");
  }

  std::string run_;
  std::string newest_;
};

TEST_F(CheckpointTest, EveryPathToACheckpointResumesIt) {
  for (const std::string& path : {newest_ + "/pretrained_model/train_config.json",
                                  newest_ + "/pretrained_model",
                                  newest_ + "/pretrained_model/",
                                  newest_,
                                  run_ + "/checkpoints/last/pretrained_model/train_config.json",
                                  run_ + "/checkpoints/last/pretrained_model",
                                  run_ + "/checkpoints/last",
                                  run_ + "/checkpoints",
                                  run_,
                                  run_ + "/"}) {
    const ParsedConfig parsed = Parsed({"--resume=true", "--config_path=" + path});
    EXPECT_EQ(parsed.checkpoint_dir, newest_) << path;
    EXPECT_EQ(parsed.weights_dir, newest_ + "/pretrained_model") << path;
  }
}

TEST_F(CheckpointTest, ATextFileLastWorksLikeALink) {
  fs::remove(run_ + "/checkpoints/last");
  Write("run/checkpoints/last", "000002\n");
  for (const std::string& path : {run_ + "/checkpoints/last/pretrained_model/train_config.json",
                                  run_ + "/checkpoints/last",
                                  run_}) {
    const ParsedConfig parsed = Parsed({"--resume=true", "--config_path=" + path});
    EXPECT_EQ(parsed.checkpoint_dir, run_ + "/checkpoints/000002") << path;
  }
  Write("run/checkpoints/last", "../../elsewhere\n");
  EXPECT_FALSE(Parse({"--resume=true", "--config_path=" + run_}).ok());
}

TEST_F(CheckpointTest, TheOutputFolderAloneIsEnough) {
  const ParsedConfig parsed = Parsed({"--resume=true", "--output_dir=" + run_});
  EXPECT_EQ(parsed.checkpoint_dir, newest_);
  EXPECT_EQ(parsed.config.output_dir, run_);
}

TEST_F(CheckpointTest, SettingsAreTheCheckpointsWithFlagsOnTop) {
  const ParsedConfig parsed =
      Parsed({"--resume=true", "--config_path=" + run_, "--steps=20", "--optimizer.lr=1e-3"});
  EXPECT_EQ(parsed.config.batch_size, 3);
  EXPECT_EQ(parsed.config.seed, 5);
  EXPECT_EQ(parsed.config.steps, 20);
  EXPECT_EQ(parsed.config.optimizer->lr, 1e-3);
  EXPECT_TRUE(parsed.Given("optimizer.lr"));
  EXPECT_TRUE(parsed.config.resume);
  EXPECT_EQ(parsed.config.checkpoint_path, newest_);
  EXPECT_EQ(parsed.config.policy->pretrained_path, newest_ + "/pretrained_model");
  EXPECT_EQ(parsed.config.optimizer->weight_decay, 1e-4) << "no preset is computed again";
}

TEST_F(CheckpointTest, ARestartResumesOnTopOfTheFirstArguments) {
  context_.resume_from = newest_;
  const ParsedConfig parsed = Parsed({"--dataset.repo_id=a/b",
                                      "--policy.path=somewhere/else",
                                      "--output_dir=" + run_,
                                      "--config_path=first.yaml",
                                      "--steps=30"});
  EXPECT_EQ(parsed.checkpoint_dir, newest_);
  EXPECT_EQ(parsed.config.steps, 30);
  EXPECT_EQ(parsed.weights_dir, newest_ + "/pretrained_model");
  EXPECT_THAT(NotesOf(parsed), HasSubstr("--policy.path=somewhere/else is not read"));
}

TEST_F(CheckpointTest, AnotherPolicyTypeCannotResume) {
  const std::string file = newest_ + "/pretrained_model/train_config.json";
  EXPECT_THAT(Parse({"--resume=true", "--config_path=" + file, "--policy.type=diffusion"}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--policy.type=diffusion"), HasSubstr("act"))));
}

TEST_F(CheckpointTest, AMissingCheckpointListsWhatIsThere) {
  EXPECT_THAT(Parse({"--resume=true", "--config_path=" + run_ + "/checkpoints/000009"}),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("000009"),
                             HasSubstr(run_ + "/checkpoints/000002"),
                             HasSubstr(run_ + "/checkpoints/000004"))));
  EXPECT_THAT(Parse({"--resume=true", "--output_dir=" + folder_ + "/none"}),
              StatusIs(StatusCode::kNotFound, HasSubstr(folder_ + "/none")));
}

TEST_F(CheckpointTest, ACheckpointsFileCanStartANewRun) {
  for (const std::string& path : {newest_ + "/pretrained_model/train_config.json",
                                  newest_ + "/pretrained_model",
                                  newest_,
                                  run_}) {
    const ParsedConfig parsed =
        Parsed({"--config_path=" + path, "--output_dir=" + folder_ + "/new"});
    EXPECT_FALSE(parsed.config.resume) << path;
    EXPECT_EQ(parsed.checkpoint_dir, "") << path;
    EXPECT_EQ(parsed.weights_dir, "") << path;
    EXPECT_EQ(parsed.config.batch_size, 3) << path;
  }
}

TEST_F(CheckpointTest, APretrainedPolicyKeepsItsConfigurationAndTakesFlags) {
  for (const std::string& path : {newest_ + "/pretrained_model", newest_, run_}) {
    const ParsedConfig parsed = Parsed({"--dataset.repo_id=a/b",
                                        "--output_dir=" + folder_ + "/new",
                                        "--policy.path=" + path,
                                        "--policy.dropout=0.25"});
    EXPECT_EQ(parsed.weights_dir, newest_ + "/pretrained_model") << path;
    EXPECT_EQ(parsed.config.policy->pretrained_path, newest_ + "/pretrained_model") << path;
    EXPECT_EQ(dynamic_cast<const ActConfig&>(*parsed.config.policy).dropout, 0.25) << path;
    EXPECT_FALSE(parsed.config.resume) << path;
  }
}

TEST_F(CheckpointTest, TheFilesSectionLiesBetweenTheSavedPolicyAndTheFlags) {
  const std::string file = Write("run.yaml",
                                 "dataset: {repo_id: a/b}\n"
                                 "policy: {path: " +
                                     newest_ + ", dropout: 0.5, kl_weight: 3}\n");
  const ParsedConfig parsed = Parsed({"--config_path=" + file, "--policy.kl_weight=4"});
  const auto& act = dynamic_cast<const ActConfig&>(*parsed.config.policy);
  EXPECT_EQ(act.dropout, 0.5);
  EXPECT_EQ(act.kl_weight, 4.0);
  EXPECT_EQ(parsed.weights_dir, newest_ + "/pretrained_model");
  EXPECT_FALSE(Parse({"--config_path=" + file, "--policy.type=act"}).ok());
}

TEST_F(CheckpointTest, APretrainedPathInTheConfigurationLoadsItsWeights) {
  const ParsedConfig parsed =
      Parsed(Minimal({"--policy.pretrained_path=" + newest_ + "/pretrained_model"}));
  EXPECT_EQ(parsed.weights_dir, newest_ + "/pretrained_model");
}

TEST_F(CheckpointTest, ARepositoryIsLookedUpInTheLocalCache) {
  environment_["HF_HOME"] = folder_ + "/hf";
  const Arguments args = {"--dataset.repo_id=a/b", "--policy.path=org/arm", "--output_dir=/none/x"};
  EXPECT_THAT(Parse(args),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr(folder_ + "/hf/hub/models--org--arm"),
                             HasSubstr("hf download org/arm"))));
  const std::string snapshot = "hf/hub/models--org--arm/snapshots/abc";
  fs::create_directories(folder_ + "/" + snapshot);
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy(newest_ + "/pretrained_model/" + name, folder_ + "/" + snapshot + "/" + name);
  }
  Write("hf/hub/models--org--arm/refs/main", "abc");
  const ParsedConfig parsed = Parsed(args);
  EXPECT_EQ(parsed.weights_dir, folder_ + "/" + snapshot);
  EXPECT_EQ(parsed.config.policy->pretrained_path, "org/arm");
  Arguments other = args;
  other.push_back("--policy.pretrained_revision=v2");
  EXPECT_FALSE(Parse(other).ok());
  Write("hf/hub/models--org--arm/refs/v2", "abc\n");
  EXPECT_THAT(Parse(other), IsOk());
}

TEST_F(CheckpointTest, ShardsAloneAreRefusedWithTheCommandThatConvertsThem) {
  const std::string folder = newest_ + "/pretrained_model";
  fs::remove(folder + "/model.safetensors");
  fs::create_directory(folder + "/pytorch_model_fsdp_0");
  EXPECT_THAT(Parse({"--dataset.repo_id=a/b", "--policy.path=" + folder}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("lerobot-convert-dcp --checkpoint_dir=" + folder)));
}

TEST_F(CheckpointTest, ABrokenConfigurationNamesTheFile) {
  Write("run/checkpoints/000004/pretrained_model/config.json", "{\"type\": ");
  EXPECT_THAT(Parse({"--dataset.repo_id=a/b", "--policy.path=" + newest_}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("config.json")));
  Write("run/checkpoints/000004/pretrained_model/config.json", "{\"n_obs_steps\": 1}");
  EXPECT_THAT(
      Parse({"--dataset.repo_id=a/b", "--policy.path=" + newest_}),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("type"), HasSubstr("config.json"))));
}

TEST(MigrateLegacyKeysTest, MovesTheOldSpellingIntoItsGroup) {
  Json json = {{"steps", 1}, {"use_rabc", true}, {"rabc_kappa", 0.5}, {"rabc_head_mode", "both"}};
  MigrateLegacyKeys(json);
  EXPECT_EQ(json.dump(),
            R"({"steps":1,"sample_weighting":{"type":"rabc","head_mode":"both","kappa":0.5}})");
  Json off = {{"use_rabc", false}, {"rabc_kappa", 0.5}};
  MigrateLegacyKeys(off);
  EXPECT_EQ(off.dump(), "{}");
}

}  // namespace
}  // namespace lr::worker
