/// Pipelines against a recorded batch and against the files of a recorded checkpoint; overrides
/// and damaged files.
#include "worker/processors/pipeline.h"

#include <filesystem>
#include <fstream>

#include <torch/torch.h>

#include "common/io/atomic_file.h"
#include "common/io/json.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/temporary_folder.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

fs::path RecordedFolder() {
  return fs::path(LR_TEST_DATA) / "processors" / "from_checkpoint";
}

/// The tensors of a file under a prefix.
TensorMap LoadTensors(const fs::path& path, const std::string& prefix = "") {
  auto file = SafetensorsFile::Open(path);
  EXPECT_THAT(file, IsOk());
  const auto all = file->LoadAll();
  EXPECT_THAT(all, IsOk());
  TensorMap tensors;
  for (const auto& [name, tensor] : *all) {
    if (name.starts_with(prefix)) {
      tensors[name.substr(prefix.size())] = tensor;
    }
  }
  return tensors;
}

/// What the recorded run built its pipelines from.
ProcessorInputs RecordedInputs() {
  ProcessorInputs inputs;
  inputs.input_features = {{"observation.state", {FeatureType::kState, {6}}},
                           {"observation.images.top", {FeatureType::kVisual, {3, 96, 128}}},
                           {"observation.images.wrist", {FeatureType::kVisual, {3, 96, 128}}}};
  inputs.output_features = {{"action", {FeatureType::kAction, {6}}}};
  for (const char* type : {"VISUAL", "STATE", "ACTION"}) {
    inputs.norm_map[type] = NormalizationMode::kMeanStd;
  }
  inputs.device = "cpu";
  for (const auto& [name, tensor] : LoadTensors(
           RecordedFolder() / "policy_postprocessor_step_0_unnormalizer_processor.safetensors")) {
    const size_t dot = name.rfind('.');
    inputs.stats[name.substr(0, dot)][name.substr(dot + 1)] = tensor;
  }
  return inputs;
}

Batch RecordedBatch(const std::string& prefix) {
  return {LoadTensors(fs::path(LR_TEST_DATA) / "act_small" / "batch.safetensors", prefix), {}};
}

/// A folder with copies of the recorded files.
struct CopiedFolder {
  CopiedFolder() {
    for (const fs::directory_entry& entry : fs::directory_iterator(RecordedFolder())) {
      fs::copy_file(entry.path(), folder.path() / entry.path().filename());
      fs::permissions(folder.path() / entry.path().filename(), fs::perms::owner_all);
    }
  }

  Json Read() const { return *ReadJsonFile(file().string()); }

  Result<Pipeline> LoadWith(const Json& json, const PipelineOverrides& overrides = {}) const {
    folder.Write("policy_preprocessor.json", json.dump());
    return LoadPipeline(folder.path(), kPreprocessorName, overrides);
  }

  fs::path file() const { return folder.path() / "policy_preprocessor.json"; }

  TemporaryFolder folder;
};

TEST(PipelineTest, TurnsTheRecordedBatchIntoThePolicysInput) {
  const Pipeline pipeline = MakePreprocessor(RecordedInputs());
  Batch batch = RecordedBatch("raw/");
  const Batch wanted = RecordedBatch("batch/");
  PrepareBatch(batch, {});
  ASSERT_THAT(pipeline.Apply(batch), IsOk());
  ASSERT_EQ(batch.tensors.size(), wanted.tensors.size());
  for (const auto& [key, tensor] : wanted.tensors) {
    SCOPED_TRACE(key);
    ASSERT_NE(batch.Find(key), nullptr);
    EXPECT_EQ(batch.Find(key)->scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(at::allclose(*batch.Find(key), tensor, 1e-6, 1e-6));
  }
}

TEST(PipelineTest, WritesTheFilesOfTheReference) {
  for (const Pipeline& pipeline :
       {MakePreprocessor(RecordedInputs()), MakePostprocessor(RecordedInputs())}) {
    const PipelineFiles files = pipeline.Serialize();
    SCOPED_TRACE(files.json_name);
    const auto recorded = ReadFile((RecordedFolder() / files.json_name).string());
    ASSERT_THAT(recorded, IsOk());
    EXPECT_EQ(files.json, *recorded);
    ASSERT_EQ(files.states.size(), 1U);
    const TensorMap wanted = LoadTensors(RecordedFolder() / files.states[0].first);
    ASSERT_EQ(files.states[0].second.size(), wanted.size());
    for (const auto& [name, tensor] : wanted) {
      EXPECT_TRUE(at::equal(files.states[0].second.at(name), tensor)) << name;
    }
  }
}

TEST(PipelineTest, LoadsWhatTheReferenceSaved) {
  for (const char* name : {kPreprocessorName, kPostprocessorName}) {
    const auto pipeline = LoadPipeline(RecordedFolder(), name);
    ASSERT_THAT(pipeline, IsOk());
    const auto recorded = ReadFile((RecordedFolder() / (std::string(name) + ".json")).string());
    EXPECT_EQ(pipeline->Serialize().json, *recorded);
  }
}

TEST(PipelineTest, TheLoadedPipelinesInvertEachOther) {
  const auto pre = LoadPipeline(RecordedFolder(), kPreprocessorName);
  const auto post = LoadPipeline(RecordedFolder(), kPostprocessorName);
  ASSERT_THAT(pre, IsOk());
  ASSERT_THAT(post, IsOk());
  const at::Tensor action = RecordedBatch("raw/").tensors.at("action");
  Batch batch;
  batch.tensors["action"] = action;
  ASSERT_THAT(pre->Apply(batch), IsOk());
  EXPECT_FALSE(at::allclose(batch.tensors.at("action"), action));
  ASSERT_THAT(post->Apply(batch), IsOk());
  EXPECT_TRUE(at::allclose(batch.tensors.at("action"), action, 1e-5, 1e-6));
}

TEST(PipelineTest, DropsWhatBelongsToNoTransition) {
  const Pipeline pipeline = MakePreprocessor({.device = "cpu"});
  Batch batch;
  for (const char* key : {"frame_index",
                          "index",
                          "observation.state",
                          "observation.state_is_pad",
                          "action_is_pad",
                          "next.done",
                          "something"}) {
    batch.tensors[key] = at::zeros({2, 1});
  }
  ASSERT_THAT(pipeline.Apply(batch), IsOk());
  EXPECT_EQ(batch.tensors.size(), 5U);
  EXPECT_EQ(batch.Find("frame_index"), nullptr);
  EXPECT_EQ(batch.Find("something"), nullptr);
}

TEST(PipelineTest, GivesSingleSamplesABatchAxis) {
  const Pipeline pipeline = MakePreprocessor({.device = "cpu"});
  Batch batch;
  batch.tensors["observation.state"] = at::zeros({6});
  batch.tensors["observation.images.top"] = at::zeros({3, 4, 5});
  batch.tensors["index"] = at::zeros({}, at::kLong);
  batch.tensors["action"] = at::zeros({2, 6});
  ASSERT_THAT(pipeline.Apply(batch), IsOk());
  EXPECT_EQ(batch.tensors.at("observation.state").sizes(), (at::IntArrayRef{1, 6}));
  EXPECT_EQ(batch.tensors.at("observation.images.top").sizes(), (at::IntArrayRef{1, 3, 4, 5}));
  EXPECT_EQ(batch.tensors.at("index").sizes(), (at::IntArrayRef{1}));
  EXPECT_EQ(batch.tensors.at("action").sizes(), (at::IntArrayRef{2, 6}));
}

TEST(PipelineTest, PreparationScalesCamerasAndRenames) {
  Batch batch;
  batch.tensors["observation.images.top"] = at::full({1, 3, 2, 2}, 255, at::kByte);
  batch.tensors["observation.images.top_is_pad"] = at::zeros({1, 1}, at::kBool);
  batch.tensors["observation.flags"] = at::full({1, 2}, 7, at::kByte);
  PrepareBatch(batch, {{"observation.images.top", "observation.images.front"}});
  EXPECT_TRUE(at::equal(batch.tensors.at("observation.images.front"), at::ones({1, 3, 2, 2})));
  EXPECT_NE(batch.Find("observation.images.front_is_pad"), nullptr);
  EXPECT_EQ(batch.tensors.at("observation.flags").scalar_type(), at::kByte);
}

TEST(PipelineTest, OverridesReplaceWhatTheyName) {
  ProcessorInputs inputs = RecordedInputs();
  inputs.norm_map["ACTION"] = NormalizationMode::kIdentity;
  inputs.rename_map = {{"observation.images.a", "observation.images.top"}};
  inputs.stats = {{"action", {{"mean", at::zeros({6})}}}};
  const auto kept =
      LoadPipeline(RecordedFolder(), kPreprocessorName, PreprocessorOverrides(inputs, true));
  const auto replaced =
      LoadPipeline(RecordedFolder(), kPreprocessorName, PreprocessorOverrides(inputs, false));
  ASSERT_THAT(kept, IsOk());
  ASSERT_THAT(replaced, IsOk());
  EXPECT_GT(kept->Serialize().states[0].second.size(), 50U);
  EXPECT_EQ(replaced->Serialize().states[0].second.size(), 1U);
  const auto json = ParseJson(replaced->Serialize().json);
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ((*json)["steps"][0]["config"]["rename_map"]["observation.images.a"],
            "observation.images.top");
  EXPECT_EQ((*json)["steps"][3]["config"]["norm_map"]["ACTION"], "IDENTITY");
}

TEST(PipelineTest, RefusesAnOverrideWithoutItsStep) {
  PipelineOverrides overrides;
  overrides.rename_map = RenameMap();
  EXPECT_THAT(LoadPipeline(RecordedFolder(), kPostprocessorName, overrides),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no step whose rename map")));
}

TEST(PipelineTest, RefusesDamagedFiles) {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };

  const std::vector<Case> cases = {
      {"/steps", 3, "no list of at most 100 steps"},
      {"/steps/0", 3, "step 0: registry_name is missing"},
      {"/steps/1/registry_name", "shuffle", "unknown processor 'shuffle'; known: rename_obs"},
      {"/steps/3/state_file", "../x.safetensors", "no plain file name"},
      {"/steps/3/state_file", "/etc/x.safetensors", "no plain file name"},
      {"/steps/3/state_file", 7, "state_file is no text"},
      {"/steps/3/config/norm_map/STATE", "ZSCORE", "norm_map.STATE: unknown mode \"ZSCORE\""},
      {"/steps/3/config/features/action/type", "MOVE", "features.action: type or shape"},
      {"/steps/3/config/features/action/shape", {1.5}, "features.action: shape"},
      {"/steps/2/config/float_dtype", "float8", "float_dtype"},
  };
  const CopiedFolder copy;
  const Json good = copy.Read();
  for (const Case& one : cases) {
    Json json = good;
    json[Json::json_pointer(one.pointer)] = one.value;
    EXPECT_THAT(copy.LoadWith(json),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(copy.file().string()), HasSubstr(one.message))))
        << one.pointer;
  }
}

TEST(PipelineTest, SaysWhichFileIsMissing) {
  const CopiedFolder copy;
  Json json = copy.Read();
  json["steps"][3]["state_file"] = "other.safetensors";
  EXPECT_THAT(copy.LoadWith(json), StatusIs(StatusCode::kNotFound, HasSubstr("other.safetensors")));
  EXPECT_THAT(LoadPipeline(copy.folder.path(), "absent"),
              StatusIs(StatusCode::kNotFound, HasSubstr("absent.json")));
}

TEST(PipelineTest, KeepsTheListOfNormalisedObservations) {
  const CopiedFolder copy;
  Json json = copy.Read();
  json["steps"][3]["config"]["normalize_observation_keys"] = {"observation.images.top"};
  const auto pipeline = copy.LoadWith(json);
  ASSERT_THAT(pipeline, IsOk());
  EXPECT_EQ(*ParseJson(pipeline->Serialize().json), json);
  Batch batch = RecordedBatch("raw/");
  PrepareBatch(batch, {});
  const Batch before = batch;
  ASSERT_THAT(pipeline->Apply(batch), IsOk());
  const auto unchanged = [&](const char* key) {
    return at::equal(batch.tensors.at(key), before.tensors.at(key));
  };
  EXPECT_TRUE(unchanged("observation.state"));
  EXPECT_FALSE(unchanged("observation.images.top"));
  EXPECT_FALSE(unchanged("action"));
}

TEST(PipelineTest, AcceptsAnySafeStateFileName) {
  const CopiedFolder copy;
  Json json = copy.Read();
  fs::rename(copy.folder.path() / json["steps"][3]["state_file"].get<std::string>(),
             copy.folder.path() / "odd name.bin");
  json["steps"][3]["state_file"] = "odd name.bin";
  EXPECT_THAT(copy.LoadWith(json), IsOk());
}

}  // namespace
}  // namespace lr::worker
