// The files that real LeRobot wrote, from the commands that it was started with.
#include "common/io/json.h"
#include "tests/worker/train/parse_support.h"
#include "worker/accelerator/topology.h"
#include "worker/policies/policy_features.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;

const DatasetFeatures kReach = {
    {"observation.state", {"float32", {6}, {}}},
    {"action", {"float32", {6}, {}}},
    {"observation.images.top", {"video", {96, 128, 3}, {"height", "width", "channels"}}},
    {"observation.images.wrist", {"video", {96, 128, 3}, {"height", "width", "channels"}}},
    {"timestamp", {"float32", {1}, {}}},
    {"frame_index", {"int64", {1}, {}}},
    {"episode_index", {"int64", {1}, {}}},
    {"index", {"int64", {1}, {}}},
    {"task_index", {"int64", {1}, {}}},
};

Json ReadFixture(const std::string& name) {
  const Result<Json> json = ReadJsonFile(std::string(LR_TEST_DATA) + "/train_runs/" + name);
  EXPECT_THAT(json, IsOk());
  return json.ok() ? *json : Json();
}

/// lerobot-train's own arguments in the recorded command.
std::vector<std::string> CommandOf(const std::string& run) {
  const Json command = ReadFixture(run + "/run.json")["command"];
  std::vector<std::string> args;
  for (const Json& word : command) {
    const std::string text = word.get<std::string>();
    const bool first = text.starts_with("--dataset.repo_id") || text.starts_with("--config_path");
    if (first || !args.empty()) {
      args.push_back(text);
    }
  }
  return args;
}

Json Recorded(const std::string& run, const std::string& step, const std::string& file) {
  return ReadFixture(run +
                     "/tree.json")["checkpoints/" + step + "/pretrained_model/" + file]["json"];
}

std::string ReplaceAll(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

class TrainConfigJsonTest : public testing::ParseTest {
 protected:
  /// The configuration as a run with this dataset and world resolves it.
  TrainConfig Resolve(const std::vector<std::string>& args, int64_t world_size = 1) {
    ParsedConfig parsed = Parsed(args);
    TrainConfig& config = parsed.config;
    EXPECT_THAT(FillFeaturesFromDataset(*config.policy, kReach, config.rename_map), IsOk());
    const Result<ResolvedTopology> topology = ResolveTopology(
        {.parallelism = config.parallelism, .world_size = world_size, .resumed = config.resume});
    EXPECT_THAT(topology, IsOk());
    config.parallelism.dp_replicate = topology->topology.dp_replicate;
    config.parallelism.dp_shard = topology->topology.dp_shard;
    return config;
  }
};

struct Recording {
  const char* name;
  int64_t world_size;
};

class RecordedRun : public TrainConfigJsonTest, public ::testing::WithParamInterface<Recording> {};

TEST_P(RecordedRun, GivesTheFilesThatLeRobotWrote) {
  const Recording& run = GetParam();
  const TrainConfig config = Resolve(CommandOf(run.name), run.world_size);
  EXPECT_EQ(DumpConfigFile(ToJson(config)),
            DumpConfigFile(Recorded(run.name, "000006", "train_config.json")));
  EXPECT_EQ(DumpConfigFile(ToJson(*config.policy)),
            DumpConfigFile(Recorded(run.name, "000006", "config.json")));
}

INSTANTIATE_TEST_SUITE_P(TrainConfigJsonTest,
                         RecordedRun,
                         ::testing::Values(Recording{"single", 1},
                                           Recording{"ddp2_torchrun", 2},
                                           Recording{"presets_off_adamw_cosine", 1}),
                         [](const auto& info) { return info.param.name; });

TEST_F(TrainConfigJsonTest, TheFileHasTheSizeThatLeRobotWrote) {
  const TrainConfig config = Resolve(CommandOf("single"));
  const Json entry =
      ReadFixture("single/tree.json")["checkpoints/000006/pretrained_model/config.json"];
  EXPECT_EQ(DumpConfigFile(ToJson(*config.policy)).size(), entry["size"].get<size_t>());
}

TEST_F(TrainConfigJsonTest, AResumedRunSavesWhatLeRobotSaves) {
  const std::string run = folder_ + "/run";
  const std::string start =
      DumpConfigFile(Recorded("single_resume6", "000006", "train_config.json"));
  const std::string file = Write("run/checkpoints/000006/pretrained_model/train_config.json",
                                 ReplaceAll(start, "<runs>/single_resume6", run));
  const TrainConfig config = Resolve({"--config_path=" + file, "--resume=true"});
  // Python's integer field turns its initial `false` into 0 once it was read; ours stays `false`.
  std::string expected =
      ReplaceAll(DumpConfigFile(Recorded("single_resume6", "000012", "train_config.json")),
                 "<runs>/single_resume6",
                 run);
  expected = ReplaceAll(expected,
                        "\"replace_final_stride_with_dilation\": 0",
                        "\"replace_final_stride_with_dilation\": false");
  EXPECT_EQ(DumpConfigFile(ToJson(config)), expected);
}

TEST_F(TrainConfigJsonTest, WhatWasWrittenReadsBackTheSame) {
  for (const char* name : {"single", "ddp2_torchrun", "presets_off_adamw_cosine"}) {
    const std::string text = DumpConfigFile(Recorded(name, "000012", "train_config.json"));
    const std::string file = Write(std::string(name) + "/pretrained_model/train_config.json", text);
    const ParsedConfig parsed = Parsed({"--config_path=" + file});
    EXPECT_EQ(DumpConfigFile(ToJson(parsed.config)), text) << name;
    EXPECT_EQ(testing::NotesOf(parsed), "") << name;
  }
}

TEST_F(TrainConfigJsonTest, NewerKeysAndOursAppearOnlyWhenChanged) {
  const Json plain = ToJson(Parsed(Minimal()).config);
  for (const char* key : {"tf32", "trackio", "keep_checkpoints", "seed_offset_per_rank"}) {
    EXPECT_FALSE(plain.contains(key)) << key;
  }
  EXPECT_FALSE(plain["accelerator"].contains("grad_scaler"));
  EXPECT_FALSE(plain["accelerator"]["gradient_accumulation"].contains("mode"));
  EXPECT_FALSE(plain["accelerator"]["fsdp"].contains("mixed_precision_policy"));
  const Json changed = ToJson(
      Parsed(Minimal({"--tf32=false", "--keep_checkpoints=3", "--trackio.project=p"})).config);
  EXPECT_EQ(changed["tf32"], false);
  EXPECT_EQ(changed["keep_checkpoints"], 3);
  EXPECT_EQ(changed["trackio"]["project"], "p");
}

TEST_F(TrainConfigJsonTest, KeysOfAnotherVersionSurviveInTheirPlace) {
  Json json = Recorded("single", "000012", "train_config.json");
  json["accelerator"]["new_engine"] = {{"a", 1}};
  json["policy"]["new_head"] = nullptr;
  json["brand_new"] = nullptr;
  const std::string file =
      Write("run/checkpoints/000012/pretrained_model/train_config.json", DumpConfigFile(json));
  const ParsedConfig parsed = Parsed({"--config_path=" + file, "--resume=true"});
  const Json written = ToJson(parsed.config);
  EXPECT_EQ(written["accelerator"]["new_engine"]["a"], 1);
  EXPECT_TRUE(written["policy"].contains("new_head"));
  EXPECT_TRUE(ToJson(*parsed.config.policy).contains("new_head"));
  EXPECT_TRUE(written.contains("brand_new"));
  const std::string notes = testing::NotesOf(parsed);
  EXPECT_THAT(notes, ::testing::HasSubstr("brand_new"));
  EXPECT_THAT(notes, ::testing::HasSubstr("new_head"));
}

TEST_F(TrainConfigJsonTest, WandbFieldsSurviveARoundTrip) {
  const Json json = ToJson(
      Parsed(Minimal({"--wandb.project=arms", "--wandb.entity=me", "--wandb.run_id=7a"})).config);
  EXPECT_EQ(json["wandb"]["project"], "arms");
  EXPECT_EQ(json["wandb"]["entity"], "me");
  EXPECT_EQ(json["wandb"]["run_id"], "7a");
}

}  // namespace
}  // namespace lr::worker
