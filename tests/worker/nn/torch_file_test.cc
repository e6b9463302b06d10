// Files of torch.save in both formats, as Python wrote them (tests/data/pickles), and damaged ones:
// every prefix and every changed byte ends in a value or an error, never in a crash.
#include "worker/nn/torch_file.h"

#include <fstream>
#include <iterator>
#include <map>

#include <ATen/ATen.h>

#include "tests/support/status_matchers.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

fs::path Fixture(const std::string& name) {
  return fs::path(LR_TEST_DATA) / "pickles" / name;
}

std::string ReadBytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TorchFileTest : public ::testing::Test {
 protected:
  ~TorchFileTest() override { fs::remove(scratch_); }

  Result<std::vector<std::pair<std::string, at::Tensor>>> ReadOf(const std::string& bytes) {
    std::ofstream(scratch_, std::ios::binary | std::ios::trunc) << bytes;
    return ReadTorchFile(scratch_);
  }

 private:
  const fs::path scratch_ = fs::path(::testing::TempDir()) / fmt::format("torch_file_{}", getpid());
};

class TorchFormatTest : public TorchFileTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(TorchFormatTest, ReadsParametersViewsAndEveryType) {
  const auto tensors = ReadTorchFile(Fixture(GetParam()));
  ASSERT_THAT(tensors, IsOk());
  std::vector<std::string> names;
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : *tensors) {
    names.push_back(name);
    by_name[name] = tensor;
    EXPECT_TRUE(tensor.is_contiguous()) << name;
  }
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "conv1.weight", "shared.head", "shared.columns", "half", "count", "flags", "empty"}));
  const at::Tensor base = at::arange(24, at::kFloat);
  EXPECT_TRUE(at::equal(by_name["conv1.weight"], (at::arange(12) / 4.0).view({2, 3, 2})));
  EXPECT_TRUE(at::equal(by_name["shared.head"], base.slice(0, 0, 6).view({2, 3})));
  EXPECT_TRUE(at::equal(by_name["shared.columns"], base.view({4, 6}).t()));
  EXPECT_EQ(by_name["half"].scalar_type(), at::kBFloat16);
  EXPECT_EQ(by_name["half"][0].item<float>(), 1.5F);
  EXPECT_EQ(by_name["count"].item<int64_t>(), 7);
  EXPECT_TRUE(by_name["flags"][0].item<bool>());
  EXPECT_EQ(by_name["empty"].sizes(), (std::vector<int64_t>{0, 3}));
}

TEST_P(TorchFormatTest, SurvivesEveryCut) {
  const std::string bytes = ReadBytes(Fixture(GetParam()));
  for (size_t length = 0; length < bytes.size(); length += 7) {
    EXPECT_FALSE(ReadOf(bytes.substr(0, length)).ok()) << length;
  }
}

TEST_P(TorchFormatTest, SurvivesEveryChangedByte) {
  const std::string bytes = ReadBytes(Fixture(GetParam()));
  for (size_t place = 0; place < bytes.size(); place += 3) {
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
    const auto tensors = ReadOf(damaged);  // a changed weight is still a weight
    if (!tensors.ok()) {
      EXPECT_FALSE(tensors.status().message().empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         TorchFormatTest,
                         ::testing::Values("zip.pth", "legacy.pth"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

TEST_F(TorchFileTest, CallsNothing) {
  EXPECT_THAT(ReadTorchFile(Fixture("calls_print.pth")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("print")));
}

TEST_F(TorchFileTest, RefusesWhatIsNoDictionaryOfTensors) {
  EXPECT_THAT(ReadTorchFile(Fixture("no_tensors.pth")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'a'")));
  EXPECT_THAT(ReadOf("hello"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("torch.save")));
  EXPECT_THAT(ReadOf(""), StatusIs(StatusCode::kInvalidArgument, _));
  EXPECT_THAT(ReadTorchFile(Fixture("absent.pth")),
              StatusIs(StatusCode::kNotFound, HasSubstr("absent.pth")));
}

}  // namespace
}  // namespace lr::worker
