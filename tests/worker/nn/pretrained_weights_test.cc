// Which file a weights name means, where it is kept, how it arrives, and the copy into a backbone
// (policies.md A.10). Downloads are from file:// only.
#include "worker/nn/pretrained_weights.h"

#include <cstdlib>
#include <fstream>

#include <ATen/ATen.h>

#include "tests/support/status_matchers.h"
#include "worker/nn/file_digest.h"
#include "worker/nn/resnet.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FindPretrainedResNetTest, AcceptsEverySpellingOfTheDefault) {
  for (const char* name :
       {"ResNet18_Weights.IMAGENET1K_V1", "IMAGENET1K_V1", "ResNet18_Weights.DEFAULT", "DEFAULT"}) {
    const auto file = FindPretrainedResNet("resnet18", name);
    ASSERT_THAT(file, IsOk()) << name;
    EXPECT_EQ(file->url, "https://download.pytorch.org/models/resnet18-f37072fd.pth");
    EXPECT_EQ(file->hash_prefix, "f37072fd");
  }
  EXPECT_EQ(FindPretrainedResNet("resnet50", "DEFAULT")->file_name, "resnet50-11ad3fa6.pth");
}

TEST(FindPretrainedResNetTest, SaysWhatToChangeWhenTheWeightsBelongToAnotherNetwork) {
  EXPECT_THAT(FindPretrainedResNet("resnet34", "ResNet18_Weights.IMAGENET1K_V1"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("pretrained_backbone_weights"),
                             HasSubstr("'resnet34'"),
                             HasSubstr("ResNet34_Weights.IMAGENET1K_V1"),
                             HasSubstr("null"))));
  EXPECT_THAT(FindPretrainedResNet("resnet18", "IMAGENET1K_V2"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("IMAGENET1K_V2")));
}

TEST(HubCachePathTest, FollowsTorchsVariables) {
  setenv("TORCH_HOME", "/a", 1);
  EXPECT_EQ(HubCachePath("f.pth"), "/a/hub/checkpoints/f.pth");
  unsetenv("TORCH_HOME");
  setenv("XDG_CACHE_HOME", "/b", 1);
  EXPECT_EQ(HubCachePath("f.pth"), "/b/torch/hub/checkpoints/f.pth");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/c", 1);
  EXPECT_EQ(HubCachePath("f.pth"), "/c/.cache/torch/hub/checkpoints/f.pth");
}

class FetchFileTest : public ::testing::Test {
 protected:
  FetchFileTest() {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "source") << "weights";
  }

  ~FetchFileTest() override { fs::remove_all(folder_); }

  PretrainedFile Source(std::string hash_prefix) const {
    return {"file://" + (folder_ / "source").string(), "source", std::move(hash_prefix)};
  }

  /// Everything in the target's folder.
  size_t CountFiles() const {
    const fs::path parent = target_.parent_path();
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(parent), fs::directory_iterator()));
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("fetch_{}", getpid());
  const fs::path target_ = folder_ / "hub" / "checkpoints" / "source";
};

TEST_F(FetchFileTest, LeavesOnlyTheCheckedFile) {
  const std::string hash = Sha256("weights", 7);
  ASSERT_THAT(FetchFile(Source(hash.substr(0, 8)), target_), IsOk());
  EXPECT_EQ(fs::file_size(target_), 7U);
  EXPECT_EQ(CountFiles(), 1U);
}

TEST_F(FetchFileTest, AWrongHashLeavesNothing) {
  EXPECT_THAT(FetchFile(Source("00000000"), target_),
              StatusIs(StatusCode::kDataLoss, HasSubstr("00000000")));
  EXPECT_EQ(CountFiles(), 0U);
}

TEST_F(FetchFileTest, AFailedDownloadNamesTheUrl) {
  PretrainedFile file = Source("00000000");
  file.url += ".absent";
  EXPECT_THAT(FetchFile(file, target_),
              StatusIs(StatusCode::kUnavailable, HasSubstr("source.absent")));
  EXPECT_EQ(CountFiles(), 0U);
}

/// The state of a backbone under torchvision's names, with values that differ from any draw.
std::vector<std::pair<std::string, at::Tensor>> ImageNetLike(const ResNet& backbone) {
  std::vector<std::pair<std::string, at::Tensor>> weights;
  double value = 0.0;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      weights.emplace_back(item.key(), at::full_like(item.value(), value += 0.25));
    }
  };
  add(backbone->named_parameters());
  add(backbone->named_buffers());
  weights.emplace_back("bn1.num_batches_tracked", at::zeros({}, at::kLong));
  weights.emplace_back("fc.weight", at::zeros({1000, 512}));
  weights.emplace_back("fc.bias", at::zeros({1000}));
  return weights;
}

class LoadBackboneTest : public ::testing::Test {
 protected:
  ResNet backbone_{FindResNet("resnet18").value()};
  std::vector<std::pair<std::string, at::Tensor>> weights_ = ImageNetLike(backbone_);
};

TEST_F(LoadBackboneTest, CopiesConvolutionsAndStatisticsAndDropsTheRest) {
  ASSERT_THAT(LoadBackbone(weights_, *backbone_), IsOk());
  const auto parameters = backbone_->named_parameters();
  const auto buffers = backbone_->named_buffers();
  EXPECT_EQ(parameters.size(), 20U);
  EXPECT_EQ(buffers.size(), 80U);
  for (const auto& [name, value] : weights_) {
    const at::Tensor* loaded = parameters.find(name);
    loaded = loaded != nullptr ? loaded : buffers.find(name);
    if (loaded != nullptr) {
      EXPECT_TRUE(at::equal(*loaded, value)) << name;
    }
  }
  EXPECT_TRUE(parameters["conv1.weight"].requires_grad());
}

TEST_F(LoadBackboneTest, RefusesIncompleteOrForeignWeightsUntouched) {
  const at::Tensor before = backbone_->named_parameters()["conv1.weight"].detach().clone();
  auto missing = weights_;
  missing.erase(missing.begin() + 3);
  EXPECT_THAT(LoadBackbone(missing, *backbone_),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("missing")));
  auto foreign = weights_;
  foreign.emplace_back("layer9.0.conv1.weight", at::zeros({1}));
  EXPECT_THAT(LoadBackbone(foreign, *backbone_),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("layer9")));
  auto misshapen = weights_;
  misshapen[0].second = at::zeros({64, 3, 3, 3});
  EXPECT_THAT(LoadBackbone(misshapen, *backbone_),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("[64, 3, 3, 3]")));
  EXPECT_TRUE(at::equal(backbone_->named_parameters()["conv1.weight"], before));
}

TEST(FrozenBatchNormTest, FusedConvolutionEqualsTheTwoSteps) {
  FrozenBatchNorm2d norm(4);
  const auto buffers = norm->named_buffers();
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    buffers[name].copy_(at::rand({4}) + 0.5);
  }
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 4, 3).stride(2).padding(1).bias(false));
  const at::Tensor x = at::randn({2, 3, 9, 11});
  const at::Tensor fused = ConvolveAndNormalize(*conv, *norm, x);
  EXPECT_TRUE(at::allclose(fused, norm->forward(conv->forward(x)), 1e-5, 1e-6));
}

}  // namespace
}  // namespace lr::worker
