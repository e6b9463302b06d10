// Names, commands, settings from the environment, the model card.
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/status_matchers.h"
#include "worker/hub/hub_settings.h"
#include "worker/hub/model_card.h"
#include "worker/hub/publish_command.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

EnvironmentReader Variables(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(RepositoryNameTest, FollowsTheHubsRules) {
  for (const char* name : {"a", "me/act", "My-Org/act_1.5", "0/1"}) {
    EXPECT_THAT(CheckRepositoryName(name), IsOk()) << name;
  }
  for (const std::string& name : {std::string(),
                                  std::string("-rf"),
                                  std::string("--token=x"),
                                  std::string("a/b/c"),
                                  std::string("/a"),
                                  std::string("a/"),
                                  std::string("a/-b"),
                                  std::string("a/b."),
                                  std::string("a--b"),
                                  std::string("a..b"),
                                  std::string("a b"),
                                  std::string(97, 'a')}) {
    EXPECT_THAT(CheckRepositoryName(name), StatusIs(StatusCode::kInvalidArgument, HasSubstr(name)))
        << name;
  }
}

TEST(UploadArgumentsTest, OneUploadOfTheStagedFolder) {
  EXPECT_THAT(UploadArguments("/bin/hf", "me/act", std::nullopt, "/tmp/x"),
              ElementsAre("/bin/hf",
                          "upload",
                          "me/act",
                          "/tmp/x",
                          ".",
                          "--repo-type",
                          "model",
                          "--commit-message",
                          "Upload policy"));
  EXPECT_EQ(UploadArguments("hf", "a", true, "x").back(), "--private");
  EXPECT_EQ(UploadArguments("hf", "a", false, "x").back(), "--no-private");
}

TEST(PublishLaterTest, CanBePastedIntoAShell) {
  EXPECT_EQ(PublishLaterCommand("/out/000003/pretrained_model", "me/act", std::nullopt),
            "lerobot-convert-dcp --checkpoint_dir=/out/000003/pretrained_model "
            "--push_to_hub=me/act");
  EXPECT_EQ(PublishLaterCommand("/o u/it's", "act", true),
            "lerobot-convert-dcp --checkpoint_dir='/o u/it'\\''s' --push_to_hub=act "
            "--private=true");
}

TEST(UploadLimitTest, GrowsWithTheBytes) {
  EXPECT_EQ(UploadLimit(0), std::chrono::minutes(10));
  EXPECT_EQ(UploadLimit(500'000'000), std::chrono::minutes(10) + std::chrono::seconds(1000));
}

class HubSettingsTest : public ::testing::Test {
 protected:
  HubSettingsTest() { fs::create_directories(folder_); }

  ~HubSettingsTest() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("hub_{}", getpid());
};

TEST_F(HubSettingsTest, DefaultsAndOverrides) {
  const HubSettings none = ReadHubSettings(Variables({{"HOME", folder_.string()}}));
  EXPECT_EQ(none.endpoint, "https://huggingface.co");
  EXPECT_FALSE(none.is_offline);
  EXPECT_EQ(none.token, "");
  EXPECT_EQ(none.command, "");
  const HubSettings given = ReadHubSettings(Variables(
      {{"HF_ENDPOINT", "http://hub:80//"}, {"HF_HUB_OFFLINE", "yes"}, {"HF_TOKEN", "t"}}));
  EXPECT_EQ(given.endpoint, "http://hub:80");
  EXPECT_TRUE(given.is_offline);
  EXPECT_EQ(given.token, "t");
  EXPECT_FALSE(ReadHubSettings(Variables({{"HF_HUB_OFFLINE", "0"}})).is_offline);
}

TEST_F(HubSettingsTest, TheTokensFileIsFoundWhereHubFilesAre) {
  const fs::path cache = folder_ / ".cache/huggingface";
  fs::create_directories(cache);
  std::ofstream(cache / "token") << "from-cache\n";
  std::ofstream(folder_ / "token") << " from-home ";
  const std::string home = folder_.string();
  EXPECT_EQ(ReadHubSettings(Variables({{"HOME", home}})).token, "from-cache");
  EXPECT_EQ(ReadHubSettings(Variables({{"HOME", home}, {"HF_HOME", home}})).token, "from-home");
  EXPECT_EQ(ReadHubSettings(Variables({{"HF_TOKEN_PATH", home + "/token"}})).token, "from-home");
  EXPECT_EQ(ReadHubSettings(Variables({{"HOME", home}, {"HF_TOKEN", " direct"}})).token, "direct");
}

TEST_F(HubSettingsTest, WhatIsMissingIsNamed) {
  HubSettings settings{"https://huggingface.co", false, "token", "/usr/bin/hf"};
  EXPECT_THAT(CheckCanPublish(settings), IsOk());
  settings.token = "";
  EXPECT_THAT(CheckCanPublish(settings),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("HF_TOKEN")));
  settings.command = "";
  EXPECT_THAT(CheckCanPublish(settings),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("`hf` is not on PATH")));
  settings.is_offline = true;
  EXPECT_THAT(CheckCanPublish(settings),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("HF_HUB_OFFLINE")));
}

TEST(ModelCardTest, NamesWhatIsKnownAndLeavesOutTheRest) {
  const Json policy = {{"type", "act"},
                       {"license", "mit"},
                       {"tags", {"a: b"}},
                       {"pretrained_path", "/home/somebody/base"}};
  const std::string card = ModelCard(policy, {{"dataset", {{"repo_id", "lerobot/pusht"}}}});
  EXPECT_THAT(card,
              AllOf(HasSubstr("---\nlibrary_name: lerobot\npipeline_tag: robotics\n"),
                    HasSubstr("license: \"mit\"\n"),
                    HasSubstr("datasets: \"lerobot/pusht\"\n"),
                    HasSubstr("- \"a: b\"\n- \"act\"\n- \"lerobot\"\n"),
                    Not(HasSubstr("somebody"))));
  EXPECT_THAT(ModelCard({{"type", "act"}}, Json()), Not(HasSubstr("datasets")));
}

}  // namespace
}  // namespace lr::worker
