// Whole directories: LeRobot's own checkpoint is read and written again byte for byte, and the tree
// of a recorded training run is reproduced key by key from equal inputs.
#include <ATen/ATen.h>

#include "common/contract/checkpoint_layout.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"
#include "tests/worker/checkpoint/fake_checkpoint.h"
#include "worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/optimizer_file.h"
#include "worker/checkpoint/scheduler_file.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

using ::lr::testing::Fixture;
using ::lr::testing::FixtureSchedule;
using ::lr::testing::IsOk;
using ::lr::testing::ReadBytes;
using ::lr::testing::TempDirectory;

constexpr const char* kStateFiles[] = {
    "policy_preprocessor_step_3_normalizer_processor.safetensors",
    "policy_postprocessor_step_0_unnormalizer_processor.safetensors"};

std::unique_ptr<Optimizer> MakeAdamW(std::vector<OptimizerGroup> groups) {
  OptimizerConfig config;
  config.type = "adamw";
  config.lr = 1e-5;
  config.weight_decay = 1e-4;
  return std::move(Optimizer::Create(config, std::move(groups))).value();
}

NamedTensors LoadAll(const fs::path& path) {
  return *SafetensorsFile::Open(path)->LoadAll();
}

TEST(CheckpointTreeTest, LeRobotsCheckpointIsWrittenAgainByteForByte) {
  const fs::path step = Fixture("lerobot/single/checkpoints/000003");
  const Json expected = *ReadJsonFile(Fixture("lerobot/single/expected.json").string());
  CheckpointContents contents;
  contents.step = *ParseTrainingStep(*ReadJsonFile((step / kTrainingStepPath).string()));
  contents.config_json = ReadBytes(step / kPolicyConfigPath);
  contents.train_config_json = ReadBytes(step / kTrainConfigPath);
  contents.model = LoadAll(step / kModelPath);
  for (const char* name : kStateFiles) {
    contents.side_files.push_back({name, LoadAll(step / kPretrainedFolder / name)});
  }
  for (const char* name : {"policy_preprocessor.json", "policy_postprocessor.json"}) {
    contents.side_files.push_back({name, ReadBytes(step / kPretrainedFolder / name)});
  }
  std::map<std::string, at::Tensor> by_name(contents.model->begin(), contents.model->end());
  OptimizerGroup group;
  for (const Json& name : expected["parameter_order"]) {
    group.names.push_back(name.get<std::string>());
    group.params.push_back(by_name.at(group.names.back()));
  }
  const std::unique_ptr<Optimizer> optimizer = MakeAdamW({group, OptimizerGroup{}});
  LrScheduler scheduler(*optimizer, FixtureSchedule());
  ASSERT_THAT(LoadOptimizer(step / kTrainingStateFolder, *optimizer), IsOk());
  ASSERT_THAT(LoadScheduler(step / kSchedulerStatePath, scheduler), IsOk());
  contents.optimizer = optimizer.get();
  contents.scheduler = &scheduler;
  const Result<RngState> rng = LoadRngState(step / kRngStatePath);
  ASSERT_THAT(rng, IsOk());
  contents.rng = *rng;

  const TempDirectory folder;
  const Result<std::vector<CheckpointFile>> files =
      WriteCheckpointFiles(TakeSnapshot(contents), folder.path());
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->size(), 12U);
  for (const CheckpointFile& file : *files) {
    EXPECT_EQ(ReadBytes(folder / file.path), ReadBytes(step / file.path)) << file.path;
  }
}

/// A recorded run's tree.json describes every file; tensors are given by shape and dtype.
class RecordedTree {
 public:
  explicit RecordedTree(const std::string& step)
      : json_(*ReadJsonFile(std::string(LR_TEST_DATA) + "/train_runs/single/tree.json")),
        step_(step) {}

  const Json& File(const std::string& path) const {
    return json_.at("checkpoints/" + step_ + "/" + path);
  }

  /// Number of files below the step directory.
  size_t size() const {
    size_t files = 0;
    for (const auto& [path, entry] : json_.items()) {
      files += path.starts_with("checkpoints/" + step_ + "/") ? 1 : 0;
    }
    return files;
  }

  /// [shape, dtype]; large files give an object, small ones a pair.
  static std::pair<std::vector<int64_t>, std::string> Shape(const Json& entry) {
    const bool is_object = entry.is_object();
    return {(is_object ? entry.at("shape") : entry.at(0)).get<std::vector<int64_t>>(),
            (is_object ? entry.at("dtype") : entry.at(1)).get<std::string>()};
  }

 private:
  Json json_;
  std::string step_;
};

c10::ScalarType TypeOf(const std::string& dtype) {
  static const std::map<std::string, c10::ScalarType> types = {
      {"float32", at::kFloat}, {"int64", at::kLong}, {"uint8", at::kByte}};
  return types.at(dtype);
}

NamedTensors ZerosLike(const Json& tensors) {
  NamedTensors made;
  for (const auto& [name, entry] : tensors.items()) {
    const auto [shape, dtype] = RecordedTree::Shape(entry);
    made.emplace_back(name, at::zeros(shape, TypeOf(dtype)));
  }
  return made;
}

/// Every `state/<id>/<name>` of the record, as an optimizer's state, and parameters of the right
/// shapes.
std::unique_ptr<Optimizer> RecordedOptimizer(const RecordedTree& tree) {
  std::map<int64_t, Optimizer::State> state;
  for (const auto& [key, tensor] : ZerosLike(tree.File(kOptimizerStatePath).at("tensors"))) {
    const size_t slash = key.rfind('/');
    state[std::stoll(key.substr(6, slash - 6))][key.substr(slash + 1)] = tensor;
  }
  std::vector<OptimizerGroup> groups;
  for (const Json& recorded : tree.File(kOptimizerGroupsPath).at("json")) {
    OptimizerGroup group;
    for (const Json& id : recorded.at("params")) {
      group.names.push_back(fmt::format("p{}", id.get<int64_t>()));
      const auto it = state.find(id.get<int64_t>());
      group.params.push_back(it == state.end() ? at::zeros({1}) : it->second.at("exp_avg"));
    }
    groups.push_back(std::move(group));
  }
  std::unique_ptr<Optimizer> optimizer = MakeAdamW(std::move(groups));
  optimizer->state() = std::move(state);
  return optimizer;
}

void ExpectSameTensors(const fs::path& file, const Json& recorded) {
  const Result<SafetensorsFile> opened = SafetensorsFile::Open(file);
  ASSERT_THAT(opened, IsOk());
  ASSERT_EQ(opened->entries().size(), recorded.at("num_tensors").get<size_t>());
  const Json& metadata = recorded.at("metadata");
  EXPECT_EQ(opened->metadata(),
            metadata.is_null() ? SafetensorsMetadata{} : metadata.get<SafetensorsMetadata>());
  for (const auto& [name, entry] : recorded.at("tensors").items()) {
    const Result<at::Tensor> tensor = opened->Load(name);
    ASSERT_THAT(tensor, IsOk());
    const auto [shape, dtype] = RecordedTree::Shape(entry);
    EXPECT_EQ(tensor->sizes().vec(), shape) << name;
    EXPECT_EQ(tensor->scalar_type(), TypeOf(dtype)) << name;
  }
}

TEST(CheckpointTreeTest, ARecordedRunsTreeIsReproducedKeyByKey) {
  const RecordedTree tree("000006");
  const std::unique_ptr<Optimizer> optimizer = RecordedOptimizer(tree);
  CheckpointContents contents;
  contents.step = *ParseTrainingStep(tree.File(kTrainingStepPath).at("json"));
  contents.config_json = DumpPythonJson(tree.File(kPolicyConfigPath).at("json"), 4);
  contents.train_config_json = DumpPythonJson(tree.File(kTrainConfigPath).at("json"), 4);
  contents.model = ZerosLike(tree.File(kModelPath).at("tensors"));
  for (const char* name : kStateFiles) {
    contents.side_files.push_back(
        {name, ZerosLike(tree.File(std::string("pretrained_model/") + name).at("tensors"))});
  }
  for (const char* name : {"policy_preprocessor.json", "policy_postprocessor.json"}) {
    contents.side_files.push_back(
        {name,
         DumpPythonJson(tree.File(std::string("pretrained_model/") + name).at("json"), 2, true)});
  }
  contents.optimizer = optimizer.get();
  contents.rng = CaptureRngState(PythonRngState::Seeded(1000));

  const TempDirectory folder;
  const Result<std::vector<CheckpointFile>> files =
      WriteCheckpointFiles(TakeSnapshot(contents), folder.path());
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->size(), tree.size());
  for (const CheckpointFile& file : *files) {
    SCOPED_TRACE(file.path);
    const Json& recorded = tree.File(file.path);
    if (file.path.ends_with(".safetensors")) {
      EXPECT_EQ(file.size, recorded.at("size").get<uint64_t>());
      ExpectSameTensors(folder / file.path, recorded);
    } else if (!file.path.ends_with("train_config.json")) {  // its recorded paths are shortened
      EXPECT_EQ(ReadJsonFile((folder / file.path).string())->dump(), recorded.at("json").dump());
      EXPECT_EQ(file.size, recorded.at("size").get<uint64_t>());
    }
  }
}

}  // namespace
}  // namespace lr::worker
