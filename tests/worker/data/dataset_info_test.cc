/// meta/info.json: defaults, every refusal with file, key and value, versions, path templates.
#include "worker/data/dataset_info.h"

#include <gtest/gtest.h>

#include "common/io/json.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/result_matcher.h"
#include "tests/worker/data/temporary_folder.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::IsOkAndHolds;
using lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

/// The least that a description must hold, with one state and one camera.
Json LeastInfo() {
  Json info = {{"codebase_version", "v3.0"}, {"fps", 10}, {"features", Json::object()}};
  for (const char* key : {"timestamp", "frame_index", "episode_index", "index", "task_index"}) {
    info["features"][key] = {{"dtype", key[1] == 'i' ? "float32" : "int64"}, {"shape", {1}}};
  }
  info["features"]["observation.state"] = {
      {"dtype", "float32"}, {"shape", {2}}, {"names", {"x", "y"}}};
  info["features"]["observation.images.top"] = {
      {"dtype", "video"},
      {"shape", {96, 128, 3}},
      {"names", {"height", "width", "channels"}},
      {"info", {{"video.codec", "av1"}, {"video.is_depth_map", false}}}};
  return info;
}

Result<DatasetInfo> Parse(const Json& json) {
  return ParseDatasetInfo(json.dump(), "meta/info.json", "org/name");
}

TEST(DatasetInfoTest, FillsDefaults) {
  const auto info = Parse(LeastInfo());
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->fps, 10);
  EXPECT_EQ(info->chunks_size, 1000);
  EXPECT_EQ(info->data_path, "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet");
  EXPECT_EQ(info->video_path,
            "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4");
  EXPECT_THAT(info->camera_keys(), ElementsAre("observation.images.top"));
  EXPECT_EQ(info->cameras.at("observation.images.top").codec, "av1");
  EXPECT_THAT(info->Find("observation.state")->names, ElementsAre("x", "y"));
  EXPECT_TRUE(info->warnings.empty());
}

TEST(DatasetInfoTest, NamesUnknownKeysInOneWarning) {
  Json json = LeastInfo();
  json["total_videos"] = 4;
  json["total_chunks"] = 1;
  const auto info = Parse(json);
  ASSERT_THAT(info, IsOk());
  EXPECT_THAT(info->warnings, ElementsAre(HasSubstr("total_videos, total_chunks")));
}

TEST(DatasetInfoTest, RecognisesDepthCamerasInEverySpelling) {
  for (const auto& [group, key] : {std::pair("info", "is_depth_map"),
                                   {"info", "video.is_depth_map"},
                                   {"video_info", "video.is_depth_map"}}) {
    Json json = LeastInfo();
    json["features"]["observation.images.top"].erase("info");
    json["features"]["observation.images.top"][group] = {{key, true}};
    const auto info = Parse(json);
    ASSERT_THAT(info, IsOk());
    EXPECT_TRUE(info->cameras.at("observation.images.top").is_depth) << group << "." << key;
  }
}

TEST(DatasetInfoTest, RefusesBadValuesWithFileKeyAndValue) {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };

  const std::vector<Case> cases = {
      {"/fps", 0, "fps: expected a whole number of at least 1, not 0"},
      {"/fps", 29.97, "not 29.97"},
      {"/fps", "10", "not \"10\""},
      {"/chunks_size", 0, "chunks_size"},
      {"/total_frames", -1, "total_frames"},
      {"/features", 7, "features: missing or no map"},
      {"/features/observation.state/shape", "2", "features.observation.state: shape is no list"},
      {"/features/observation.state/shape", {2, -1}, "shape [2,-1] holds no sizes"},
      {"/features/observation.state/dtype", nullptr, "features.observation.state: dtype"},
      {"/codebase_version", "three", "'three' is no version"},
      {"/codebase_version", 3, "codebase_version"},
  };
  for (const Case& one : cases) {
    Json json = LeastInfo();
    json[Json::json_pointer(one.pointer)] = one.value;
    EXPECT_THAT(Parse(json),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("meta/info.json"), HasSubstr(one.message))));
  }
}

TEST(DatasetInfoTest, RefusesSlashesInFeatureNames) {
  Json json = LeastInfo();
  json["features"]["a/b"] = {{"dtype", "float32"}, {"shape", {1}}};
  EXPECT_THAT(Parse(json), StatusIs(StatusCode::kInvalidArgument, HasSubstr("'a/b' contains '/'")));
}

TEST(DatasetInfoTest, NamesWhatIsMissing) {
  for (const char* key : {"codebase_version", "fps", "features"}) {
    Json json = LeastInfo();
    json.erase(key);
    EXPECT_THAT(Parse(json), StatusIs(StatusCode::kInvalidArgument, HasSubstr(key)));
  }
  Json json = LeastInfo();
  json["features"].erase("task_index");
  EXPECT_THAT(Parse(json),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'task_index' is missing")));
  EXPECT_THAT(ParseDatasetInfo("{\"fps\": 1", "meta/info.json", "org/name"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("meta/info.json")));
  EXPECT_THAT(ParseDatasetInfo("[]", "meta/info.json", "org/name"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a JSON object")));
}

TEST(DatasetInfoTest, JudgesVersions) {
  Json json = LeastInfo();
  json["codebase_version"] = "v2.1";
  EXPECT_THAT(Parse(json),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("python -m lerobot.scripts.convert_dataset_v21_to_v30 "
                                 "--repo-id=org/name")));
  json["codebase_version"] = "v4.0";
  EXPECT_THAT(Parse(json), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("newer")));
  json["codebase_version"] = "v3.1";
  const auto info = Parse(json);
  ASSERT_THAT(info, IsOk());
  EXPECT_THAT(info->warnings, ElementsAre(HasSubstr("v3.1 is newer than v3.0")));
}

TEST(DatasetInfoTest, SaysWhichFileIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      ReadDatasetInfo(folder.path(), "org/name"),
      StatusIs(StatusCode::kNotFound, HasSubstr((folder.path() / "meta/info.json").string())));
}

TEST(DatasetInfoTest, RecognisesOldFoldersByTheirFiles) {
  const TemporaryFolder folder;
  folder.Write("meta/info.json", "{}");
  folder.Write("meta/episodes.jsonl", "");
  EXPECT_THAT(ReadDatasetInfo(folder.path(), "org/name"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("convert_dataset_v21_to_v30")));
}

TEST(PathTemplateTest, FillsNumbersAndNames) {
  EXPECT_THAT(FillPathTemplate("d/chunk-{chunk_index:03d}/f-{file_index:03d}.mp4", 2, 1234, ""),
              IsOkAndHolds(std::string("d/chunk-002/f-1234.mp4")));
  EXPECT_THAT(FillPathTemplate("{video_key}/{{{chunk_index}}}", 7, 0, "a.b"),
              IsOkAndHolds(std::string("a.b/{7}")));
}

TEST(PathTemplateTest, RefusesWhatItDoesNotKnow) {
  for (const char* bad :
       {"{chunk_index", "{episode}", "{chunk_index:x}", "{chunk_index:99d}", "{}"}) {
    EXPECT_THAT(FillPathTemplate(bad, 0, 0, ""),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("path template")));
  }
}

}  // namespace
}  // namespace lr::worker
