// Generator states: Python's seeding is reproduced, torch continues as recorded, broken states are
// refused.
#include "worker/checkpoint/rng_state.h"

#include <ATen/ATen.h>

#include "common/io/json.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"

namespace lr::worker {
namespace {

using ::lr::testing::Fixture;
using ::lr::testing::IsOk;
using ::lr::testing::ReadBytes;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::testing::HasSubstr;

constexpr const char* kCases[] = {"seed0",
                                  "seed1000",
                                  "seed1000_after_draws",
                                  "seed42_odd_normal",
                                  "seed42_double_normal",
                                  "seed7_wrap",
                                  "seed_big"};

std::filesystem::path FixtureFile(const std::string& name) {
  return Fixture("rng/" + name + "/rng_state.safetensors");
}

Json FixtureDraws(const std::string& name) {
  return (*ReadJsonFile(Fixture("rng/expected.json").string()))["cases"][name]["next_after_load"];
}

std::vector<double> Doubles(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble);
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

NamedTensors Replace(NamedTensors tensors, const std::string& name, const at::Tensor& tensor) {
  for (auto& [key, value] : tensors) {
    if (key == name) {
      value = tensor;
    }
  }
  return tensors;
}

TEST(RngStateTest, TorchContinuesAsRecordedAfterEveryFixture) {
  for (const char* name : kCases) {
    SCOPED_TRACE(name);
    const Result<RngState> state = LoadRngState(FixtureFile(name));
    ASSERT_THAT(state, IsOk());
    const Json draws = FixtureDraws(name);
    const auto again = [&] { ASSERT_THAT(ApplyRngState(*state), IsOk()); };
    again();
    EXPECT_EQ(Doubles(at::rand({5})), draws["torch_rand_f32"].get<std::vector<double>>());
    again();
    EXPECT_EQ(Doubles(at::rand({5}, at::kDouble)),
              draws["torch_rand_f64"].get<std::vector<double>>());
    again();
    EXPECT_EQ(Doubles(at::randn({16})), draws["torch_randn_f32_16"].get<std::vector<double>>());
    again();
    EXPECT_EQ(Doubles(at::randn({5}, at::kDouble)),
              draws["torch_randn_f64_5"].get<std::vector<double>>());
    again();
    EXPECT_EQ(at::empty({}, at::kLong).random_().item<int64_t>(),
              draws["torch_seed_for_workers"].get<int64_t>());
  }
}

TEST(RngStateTest, FixturesAreWrittenAgainByteForByte) {
  const TempDirectory folder;
  for (const char* name : kCases) {
    SCOPED_TRACE(name);
    const Result<RngState> state = LoadRngState(FixtureFile(name));
    ASSERT_THAT(state, IsOk());
    ASSERT_THAT(ApplyRngState(*state), IsOk());
    ASSERT_THAT(WriteSafetensors(folder / name, RngTensors(CaptureRngState(state->python))),
                IsOk());
    EXPECT_EQ(ReadBytes(folder / name), ReadBytes(FixtureFile(name)));
  }
}

TEST(RngStateTest, ContinuesARecordedTrainingRun) {
  const Result<RngState> state = LoadRngState(Fixture("rng/single_resume6_step6.safetensors"));
  ASSERT_THAT(state, IsOk());
  ASSERT_THAT(ApplyRngState(*state), IsOk());
  EXPECT_EQ(Doubles(at::rand({4})),
            (std::vector<double>{
                0.34635937213897705, 0.20387697219848633, 0.8151847720146179, 0.6139422655105591}));
}

TEST(RngStateTest, SeedsPythonAndNumpyAsTheyDoThemselves) {
  for (const auto& [name, seed] : {std::pair{"seed0", uint64_t{0}}, {"seed1000", uint64_t{1000}}}) {
    const Result<RngState> state = LoadRngState(FixtureFile(name));
    ASSERT_THAT(state, IsOk());
    const PythonRngState seeded = PythonRngState::Seeded(seed);
    EXPECT_EQ(seeded.python_words, state->python.python_words) << name;
    EXPECT_EQ(seeded.python_index, state->python.python_index) << name;
    EXPECT_EQ(seeded.numpy_words, state->python.numpy_words) << name;
    EXPECT_EQ(seeded.numpy_index, state->python.numpy_index) << name;
  }
}

TEST(RngStateTest, AcceptsTheShortBlobOfOldReleases) {
  const TempDirectory folder;
  const Result<RngState> state = LoadRngState(FixtureFile("seed1000"));
  ASSERT_THAT(state, IsOk());
  ASSERT_THAT(
      WriteSafetensors(
          folder / "old",
          Replace(RngTensors(*state), "torch_rng_state", state->torch_cpu.slice(0, 0, 5048))),
      IsOk());
  const Result<RngState> old = LoadRngState(folder / "old");
  ASSERT_THAT(old, IsOk());
  EXPECT_TRUE(at::equal(old->torch_cpu, state->torch_cpu));
}

TEST(RngStateTest, RefusesStatesThatWouldMisleadAGenerator) {
  const TempDirectory folder;
  const Result<RngState> state = LoadRngState(FixtureFile("seed7_wrap"));
  ASSERT_THAT(state, IsOk());
  const NamedTensors good = RngTensors(*state);
  const auto refused =
      [&](const std::string& name, const at::Tensor& tensor, const std::string& reason) {
        ASSERT_THAT(WriteSafetensors(folder / "bad", Replace(good, name, tensor)), IsOk());
        EXPECT_THAT(LoadRngState(folder / "bad"),
                    StatusIs(StatusCode::kInvalidArgument, HasSubstr(reason)));
      };
  const auto blob_with = [&](size_t offset, uint8_t value) {
    at::Tensor blob = state->torch_cpu.clone();
    blob.data_ptr<uint8_t>()[offset] = value;
    return blob;
  };
  refused("torch_rng_state",
          at::zeros({5056}, at::kByte),
          "no valid generator (left 0, next 0, seeded 0)");
  refused(
      "torch_rng_state", blob_with(17, 255), "no valid generator");     // next far beyond the words
  refused("torch_rng_state", blob_with(9, 255), "no valid generator");  // left
  refused("torch_rng_state", at::zeros({100}, at::kByte), "expected Byte [5056]");
  refused("py_rng_version", at::full({1}, 2, at::kLong), "py_rng_version is 2");
  refused("py_rng_state", at::full({625}, -1, at::kLong), "not a 32-bit word");
  refused("py_rng_state", at::full({625}, 700, at::kLong), "index 700");
  refused("np_rng_state_index", at::full({1}, 625, at::kLong), "allowed are 0 to 624");
  refused("np_rng_has_gauss", at::full({1}, 2, at::kLong), "allowed are 0 to 1");
  refused("np_rng_state_values", at::zeros({624}, at::kInt), "expected Long [624]");
  NamedTensors without = good;
  std::erase_if(without, [](const auto& entry) { return entry.first == "torch_rng_state"; });
  ASSERT_THAT(WriteSafetensors(folder / "bad", without), IsOk());
  EXPECT_THAT(LoadRngState(folder / "bad"),
              StatusIs(StatusCode::kNotFound, HasSubstr("no tensor 'torch_rng_state'")));
}

TEST(RngStateTest, TheDevicesStateIsCarriedAndIgnoredWithoutTheDevice) {
  const TempDirectory folder;
  RngState state = CaptureRngState(PythonRngState::Seeded(1));
  state.torch_device = at::arange(16, at::kByte);
  ASSERT_THAT(WriteSafetensors(folder / "cuda", RngTensors(state)), IsOk());
  const Result<RngState> loaded = LoadRngState(folder / "cuda");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_TRUE(at::equal(loaded->torch_device, state.torch_device));
  EXPECT_THAT(ApplyRngState(*loaded), IsOk());
}

}  // namespace
}  // namespace lr::worker
