// A module's state: order, tied tensors, strict and lenient loading.
#include "worker/checkpoint/model_file.h"

#include <torch/torch.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"

namespace lr::worker {
namespace {

using ::lr::testing::Fixture;
using ::lr::testing::IsOk;
using ::lr::testing::ReadBytes;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Inner : torch::nn::Module {
  Inner() {
    register_buffer("count", torch::zeros({1}, torch::kLong));
    register_parameter("weight", torch::randn({2, 3}));
  }
};

struct Outer : torch::nn::Module {
  Outer() {
    register_module("inner", std::make_shared<Inner>());
    register_buffer("scale", torch::ones({2}));
    register_parameter("bias", torch::randn({2}));
    register_parameter("unused", torch::Tensor(), /*requires_grad=*/false);
  }
};

/// head.weight is emb.weight.
struct Tied : torch::nn::Module {
  Tied() {
    torch::nn::Linear z(torch::nn::LinearOptions(3, 4).bias(false));
    torch::nn::Linear a(torch::nn::LinearOptions(3, 4).bias(false));
    register_module("z_first", z);
    register_module("mid", torch::nn::Linear(3, 2));
    a->weight = a->register_parameter("tied", z->weight);
    register_module("a_last", a);
  }
};

std::vector<std::string> Names(const NamedTensors& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) {
    names.push_back(name);
  }
  return names;
}

TEST(ModelFileTest, StateDictHasPyTorchsOrder) {
  EXPECT_THAT(Names(StateDict(Outer())),
              ElementsAre("bias", "scale", "inner.weight", "inner.count"));
}

TEST(ModelFileTest, RoundTripRestoresParametersAndBuffers) {
  const TempDirectory folder;
  Outer saved;
  Outer loaded;
  ASSERT_THAT(SaveModel(StateDict(saved), folder / "m"), IsOk());
  const Result<ModelLoadReport> report = LoadModel(folder / "m", loaded, MissingKeys::kError);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->missing.empty());
  const NamedTensors expected = StateDict(saved);
  const NamedTensors actual = StateDict(loaded);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(expected[i].second, actual[i].second)) << expected[i].first;
  }
  EXPECT_TRUE(loaded.parameters()[0].requires_grad());
}

TEST(ModelFileTest, KeepsTheAlphabeticallyFirstNameOfATiedTensorAsTheReferenceDoes) {
  const TempDirectory folder;
  const std::filesystem::path reference = Fixture("safetensors/tied/hub.safetensors");
  const Result<SafetensorsFile> file = SafetensorsFile::Open(reference);
  ASSERT_THAT(file, IsOk());
  const at::Tensor shared = *file->Load("a_last.weight");
  ASSERT_THAT(SaveModel({{"z_first.weight", shared},
                         {"mid.weight", *file->Load("mid.weight")},
                         {"mid.bias", *file->Load("mid.bias")},
                         {"a_last.weight", shared}},
                        folder / "m"),
              IsOk());
  EXPECT_EQ(ReadBytes(folder / "m"), ReadBytes(reference));
}

TEST(ModelFileTest, OverlappingTensorsThatAreNotTheSameAreAllWritten) {
  const at::Tensor base = torch::arange(6, torch::kFloat);
  const TiedState state = ResolveTies({{"all", base},
                                       {"part", base.slice(0, 0, 3)},
                                       {"empty", torch::empty({0})},
                                       {"empty2", torch::empty({0})}});
  EXPECT_EQ(state.kept.size(), 4U);
  EXPECT_TRUE(state.aliases.empty());
}

TEST(ModelFileTest, ATiedNameIsSatisfiedByTheNameThatTheFileKept) {
  const TempDirectory folder;
  Outer module;
  // The file keeps `inner.weight` under another name that the module does not have, and says so in
  // its metadata.
  NamedTensors state = {{"bias", torch::zeros({2})},
                        {"scale", torch::zeros({2})},
                        {"inner.count", torch::zeros({1}, torch::kLong)},
                        {"a.weight", torch::ones({2, 3})}};
  ASSERT_THAT(
      WriteSafetensors(folder / "m", state, {{"format", "pt"}, {"inner.weight", "a.weight"}}),
      IsOk());
  ASSERT_THAT(LoadModel(folder / "m", module, MissingKeys::kError), IsOk());
  EXPECT_TRUE(torch::equal(module.named_parameters()["inner.weight"], torch::ones({2, 3})));
}

TEST(ModelFileTest, AModulesOwnTieSatisfiesANameThatTheFileLacks) {
  const TempDirectory folder;
  Tied module;
  NamedTensors state = StateDict(module);
  std::erase_if(state, [](const auto& entry) {
    return entry.first == "a_last.tied" || entry.first == "a_last.weight";
  });
  ASSERT_THAT(WriteSafetensors(folder / "m", state, {{"format", "pt"}}), IsOk());
  const Result<ModelLoadReport> report = LoadModel(folder / "m", module, MissingKeys::kReport);
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->missing, ElementsAre("a_last.weight"));  // not tied: replaced by `tied`
}

TEST(ModelFileTest, MissingTensorsAreAnErrorOnResumeAndAReportOtherwise) {
  const TempDirectory folder;
  Outer module;
  ASSERT_THAT(WriteSafetensors(folder / "m",
                               {{"bias", torch::zeros({2})}, {"extra", torch::zeros({1})}},
                               {{"format", "pt"}}),
              IsOk());
  const at::Tensor bias_before = module.named_parameters()["bias"].clone();
  EXPECT_THAT(
      LoadModel(folder / "m", module, MissingKeys::kError),
      StatusIs(StatusCode::kNotFound,
               AllOf(HasSubstr("lacks 3 of the model's tensors"), HasSubstr("inner.weight"))));
  EXPECT_TRUE(torch::equal(module.named_parameters()["bias"], bias_before));
  const Result<ModelLoadReport> report = LoadModel(folder / "m", module, MissingKeys::kReport);
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->missing, ElementsAre("scale", "inner.weight", "inner.count"));
  EXPECT_THAT(report->unexpected, ElementsAre("extra"));
  EXPECT_TRUE(torch::equal(module.named_parameters()["bias"], torch::zeros({2})));
}

TEST(ModelFileTest, AShapeMismatchNamesBothShapesAndChangesNothing) {
  const TempDirectory folder;
  Outer module;
  NamedTensors state = StateDict(Outer());
  state[2].second = torch::zeros({3, 2});
  ASSERT_THAT(SaveModel(state, folder / "m"), IsOk());
  const at::Tensor before = module.named_parameters()["bias"].clone();
  EXPECT_THAT(
      LoadModel(folder / "m", module, MissingKeys::kReport),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("inner.weight has shape [3, 2] in the file and [2, 3] in the model")));
  EXPECT_TRUE(torch::equal(module.named_parameters()["bias"], before));
}

TEST(ModelFileTest, ConvertsTheDtype) {
  const TempDirectory folder;
  Outer module;
  NamedTensors state = StateDict(Outer());
  state[0].second = torch::full({2}, 0.5, torch::kBFloat16);
  ASSERT_THAT(SaveModel(state, folder / "m"), IsOk());
  ASSERT_THAT(LoadModel(folder / "m", module, MissingKeys::kError), IsOk());
  EXPECT_TRUE(torch::equal(module.named_parameters()["bias"], torch::full({2}, 0.5)));
}

}  // namespace
}  // namespace lr::worker
