// Optimizer files: LeRobot's own are read and written again byte for byte; faults are named and
// change nothing.
#include "worker/checkpoint/optimizer_file.h"

#include <ATen/ATen.h>

#include "common/contract/checkpoint_layout.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"

namespace lr::worker {
namespace {

using ::lr::testing::Fixture;
using ::lr::testing::IsOk;
using ::lr::testing::ReadBytes;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::lr::testing::WriteBytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

OptimizerConfig AdamW() {
  OptimizerConfig config;
  config.type = "adamw";
  config.lr = 1e-3;
  config.weight_decay = 1e-2;
  return config;
}

OptimizerGroup Group(const std::vector<at::Tensor>& params) {
  OptimizerGroup group;
  group.params = params;
  for (size_t i = 0; i < params.size(); ++i) {
    group.names.push_back(fmt::format("p{}", i));
  }
  return group;
}

std::unique_ptr<Optimizer> Make(const OptimizerConfig& config, std::vector<OptimizerGroup> groups) {
  Result<std::unique_ptr<Optimizer>> optimizer = Optimizer::Create(config, std::move(groups));
  EXPECT_THAT(optimizer, IsOk());
  return std::move(optimizer).value();
}

/// Two parameters in one group, one in another; the middle one never has a gradient.
std::unique_ptr<Optimizer> Small(const OptimizerConfig& config, int steps) {
  std::vector<at::Tensor> params = {at::ones({3, 4}), at::ones({3}), at::ones({2})};
  OptimizerGroup second = Group({params[2]});
  second.lr = 0.5;
  second.lr_is_own = true;
  std::unique_ptr<Optimizer> optimizer = Make(config, {Group({params[0], params[1]}), second});
  for (int i = 0; i < steps; ++i) {
    params[0].mutable_grad() = at::full_like(params[0], 0.5);
    params[2].mutable_grad() = at::full_like(params[2], -0.25);
    optimizer->Step();
  }
  return optimizer;
}

void Save(const Optimizer& optimizer, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory / kTrainingStateFolder);
  ASSERT_THAT(WriteSafetensors(directory / kOptimizerStatePath, OptimizerStateTensors(optimizer)),
              IsOk());
  WriteBytes(directory / kOptimizerGroupsPath, DumpPythonJson(OptimizerParamGroups(optimizer), 4));
}

Result<std::vector<std::string>> Load(const std::filesystem::path& directory,
                                      Optimizer& optimizer) {
  return LoadOptimizer(directory / kTrainingStateFolder, optimizer);
}

void ReplaceInGroups(const std::filesystem::path& directory,
                     const std::string& from,
                     const std::string& to) {
  std::string text = ReadBytes(directory / kOptimizerGroupsPath);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  WriteBytes(directory / kOptimizerGroupsPath, text);
}

TEST(OptimizerFileTest, ReadsLeRobotsFilesAndWritesThemAgainByteForByte) {
  const std::filesystem::path run = Fixture("lerobot/single");
  const std::filesystem::path step = run / "checkpoints/000003";
  const Json expected = *ReadJsonFile((run / "expected.json").string());
  const Result<SafetensorsFile> model = SafetensorsFile::Open(step / kModelPath);
  ASSERT_THAT(model, IsOk());
  std::vector<at::Tensor> params;
  for (const Json& name : expected["parameter_order"]) {
    params.push_back(*model->Load(name.get<std::string>()));
  }
  const std::unique_ptr<Optimizer> optimizer = Make(AdamW(), {Group(params), Group({})});
  const Result<std::vector<std::string>> warnings = Load(step, *optimizer);
  ASSERT_THAT(warnings, IsOk());
  EXPECT_THAT(*warnings, IsEmpty());
  EXPECT_DOUBLE_EQ(optimizer->groups()[0].lr, 0.000814503363531613);
  EXPECT_DOUBLE_EQ(optimizer->groups()[1].initial_lr.value(), 1e-4);
  EXPECT_DOUBLE_EQ(optimizer->groups()[0].options.weight_decay, 1e-4);
  EXPECT_EQ(optimizer->state().at(0).at("step").item<float>(), 3.0F);

  const TempDirectory folder;
  Save(*optimizer, folder.path());
  EXPECT_EQ(ReadBytes(folder / kOptimizerGroupsPath), ReadBytes(step / kOptimizerGroupsPath));
  EXPECT_EQ(ReadBytes(folder / kOptimizerStatePath), ReadBytes(step / kOptimizerStatePath));
}

TEST(OptimizerFileTest, GroupsHaveTorchsKeysForEveryOptimizer) {
  const Json cases =
      (*ReadJsonFile(std::string(LR_TEST_DATA) + "/optimizers_expected.json"))["cases"];
  size_t compared = 0;
  for (const auto& [name, entry] : cases.items()) {
    if (name == "multi_adam") {
      continue;
    }
    SCOPED_TRACE(name);
    const Json& config_json = entry["config"];
    OptimizerConfig config;
    config.type = name.substr(0, name.find('_'));
    config.lr = config_json["lr"];
    config.weight_decay = config_json["weight_decay"];
    const Json& expected = entry["param_groups"][""];
    std::vector<OptimizerGroup> groups;
    const std::vector<std::string> names = {"w", "b", "vlm.k", "soft_prompt.p"};
    size_t next = 0;
    for (const Json& group : expected) {
      OptimizerGroup mine;
      for (size_t i = 0; i < group["params"].size(); ++i, ++next) {
        mine.names.push_back(names[next]);
        mine.params.push_back(at::ones({2}));
      }
      groups.push_back(std::move(mine));
    }
    const std::unique_ptr<Optimizer> optimizer = Make(config, std::move(groups));
    const Json actual = OptimizerParamGroups(*optimizer);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i].size(), expected[i].size());
      auto mine = actual[i].begin();
      for (const auto& [key, value] : expected[i].items()) {
        EXPECT_EQ(mine.key(), key);
        EXPECT_EQ(mine.value().type_name(), std::string(value.type_name())) << key;
        EXPECT_EQ(mine.value().is_number_float(), value.is_number_float()) << key;
        ++mine;
      }
    }
    ++compared;
  }
  EXPECT_GE(compared, 8U);
}

TEST(OptimizerFileTest, RoundTripKeepsHolesGroupsAndMoments) {
  const TempDirectory folder;
  const std::unique_ptr<Optimizer> saved = Small(AdamW(), 3);
  Save(*saved, folder.path());
  OptimizerConfig other = AdamW();
  other.betas = {0.1, 0.2};
  other.lr = 7.0;
  const std::unique_ptr<Optimizer> loaded = Small(other, 0);
  ASSERT_THAT(Load(folder.path(), *loaded), IsOk());
  EXPECT_EQ(loaded->groups()[0].options.betas, AdamW().betas);
  EXPECT_DOUBLE_EQ(loaded->groups()[0].lr, 1e-3);
  EXPECT_DOUBLE_EQ(loaded->groups()[1].lr, 0.5);
  ASSERT_EQ(loaded->state().size(), 2U);
  EXPECT_FALSE(loaded->state().contains(1));
  for (const auto& [id, state] : saved->state()) {
    for (const auto& [name, tensor] : state) {
      EXPECT_TRUE(at::equal(loaded->state().at(id).at(name), tensor)) << id << name;
    }
  }
}

TEST(OptimizerFileTest, SgdWithoutMomentumHasTheEmptyFile) {
  const TempDirectory folder;
  OptimizerConfig config;
  config.type = "sgd";
  const std::unique_ptr<Optimizer> optimizer = Small(config, 2);
  Save(*optimizer, folder.path());
  EXPECT_EQ(std::filesystem::file_size(folder / kOptimizerStatePath), 16U);
  ASSERT_THAT(Load(folder.path(), *Small(config, 0)), IsOk());
}

TEST(OptimizerFileTest, SgdMomentumRoundTrip) {
  const TempDirectory folder;
  OptimizerConfig config;
  config.type = "sgd";
  config.momentum = 0.9;
  const std::unique_ptr<Optimizer> saved = Small(config, 2);
  Save(*saved, folder.path());
  const std::unique_ptr<Optimizer> loaded = Small(config, 0);
  ASSERT_THAT(Load(folder.path(), *loaded), IsOk());
  EXPECT_TRUE(at::equal(loaded->state().at(2).at("momentum_buffer"),
                        saved->state().at(2).at("momentum_buffer")));
}

TEST(OptimizerFileTest, OtherGroupsOrParametersAreHardErrorsAndChangeNothing) {
  const TempDirectory folder;
  Save(*Small(AdamW(), 1), folder.path());
  const std::unique_ptr<Optimizer> one_group = Make(AdamW(), {Group({at::ones({2})})});
  EXPECT_THAT(
      Load(folder.path(), *one_group),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("2 parameter groups, the optimizer has 1")));
  const std::unique_ptr<Optimizer> fewer =
      Make(AdamW(), {Group({at::ones({3, 4})}), Group({at::ones({2})})});
  EXPECT_THAT(Load(folder.path(), *fewer),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("group 0: the file has 2 parameters, the optimizer has 1")));
  const std::unique_ptr<Optimizer> other_shape =
      Make(AdamW(), {Group({at::ones({4, 3}), at::ones({3})}), Group({at::ones({2})})});
  EXPECT_THAT(Load(folder.path(), *other_shape),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("state/0/exp_avg"),
                             HasSubstr("has shape [3, 4], expected [4, 3]"))));
  EXPECT_TRUE(other_shape->state().empty());
  EXPECT_DOUBLE_EQ(other_shape->groups()[1].lr, 1e-3);
}

TEST(OptimizerFileTest, IncompleteOrForeignStateIsRefused) {
  const TempDirectory folder;
  const std::unique_ptr<Optimizer> optimizer = Small(AdamW(), 1);
  Save(*optimizer, folder.path());
  NamedTensors state = OptimizerStateTensors(*optimizer);
  state.pop_back();
  ASSERT_THAT(WriteSafetensors(folder / kOptimizerStatePath, state), IsOk());
  EXPECT_THAT(Load(folder.path(), *Small(AdamW(), 0)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("has 2 of 3 tensors")));
  ASSERT_THAT(WriteSafetensors(folder / kOptimizerStatePath, {{"state/9/step", at::zeros({})}}),
              IsOk());
  EXPECT_THAT(
      Load(folder.path(), *Small(AdamW(), 0)),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("state/9/step belongs to no parameter")));
}

TEST(OptimizerFileTest, UnknownAndMissingKeysAreWarnings) {
  const TempDirectory folder;
  Save(*Small(AdamW(), 1), folder.path());
  ReplaceInGroups(folder.path(), "\"eps\"", "\"epsilon\"");
  const Result<std::vector<std::string>> warnings = Load(folder.path(), *Small(AdamW(), 0));
  ASSERT_THAT(warnings, IsOk());
  EXPECT_THAT(*warnings,
              ElementsAre("optimizer group key `eps` is missing: the current value stays",
                          "optimizer group key `epsilon` is not known and ignored"));
  ReplaceInGroups(folder.path(), "\"amsgrad\": false", "\"amsgrad\": true");
  EXPECT_THAT(Load(folder.path(), *Small(AdamW(), 0)),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("`amsgrad` is true")));
}

TEST(OptimizerFileTest, DamagedGroupsAreNamed) {
  const TempDirectory folder;
  Save(*Small(AdamW(), 1), folder.path());
  ReplaceInGroups(folder.path(), "0.001", "\"fast\"");
  EXPECT_THAT(Load(folder.path(), *Small(AdamW(), 0)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("group 0: `lr` is \"fast\"")));
  WriteBytes(folder / kOptimizerGroupsPath, "{}");
  EXPECT_THAT(Load(folder.path(), *Small(AdamW(), 0)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not an array of groups")));
  std::filesystem::remove(folder / kOptimizerGroupsPath);
  EXPECT_THAT(Load(folder.path(), *Small(AdamW(), 0)),
              StatusIs(StatusCode::kNotFound, HasSubstr("optimizer_param_groups.json")));
}

TEST(OptimizerFileTest, ShardsGetTheirRows) {
  const TempDirectory folder;
  const std::unique_ptr<Optimizer> saved = Small(AdamW(), 3);
  Save(*saved, folder.path());
  constexpr int kRanks = 2;
  for (int rank = 0; rank < kRanks; ++rank) {
    // The first parameter's three rows over two ranks, the others whole.
    const DcpPlace place{rank, kRanks, 0, 1};
    const DcpRows rows = RowsOfShard(3, rank, kRanks);
    const at::Tensor shard = at::ones({rows.count, 4});
    const at::Tensor whole = at::ones({3});
    OptimizerGroup second = Group({at::ones({2})});
    second.lr_is_own = true;
    const std::unique_ptr<Optimizer> loaded = Make(AdamW(), {Group({shard, whole}), second});
    const std::vector<ShardedParameter> held = {{{"p0"}, shard, {3, 4}, true}};
    ASSERT_THAT(LoadOptimizer(folder / kTrainingStateFolder, *loaded, held, place), IsOk());
    for (const char* state : {"exp_avg", "exp_avg_sq"}) {
      EXPECT_TRUE(at::equal(loaded->state().at(0).at(state),
                            saved->state().at(0).at(state).narrow(0, rows.first, rows.count)));
      EXPECT_TRUE(at::equal(loaded->state().at(2).at(state), saved->state().at(2).at(state)));
    }
    EXPECT_EQ(loaded->state().at(0).at("step").item<float>(), 3.0F);
    EXPECT_FALSE(loaded->state().contains(1));
  }
}

}  // namespace
}  // namespace lr::worker
