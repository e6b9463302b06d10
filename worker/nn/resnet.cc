// torchvision's ResNet (He et al. 2015; stride on the 3x3 convolution of a bottleneck). Every
// convolution runs fused with its normalisation, and ReLU works in place: neither needs what the
// other overwrites. Thread: step thread.
#include "worker/nn/resnet.h"

#include <map>

#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include "common/base/text.h"

namespace lr::worker {

namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

struct BlockShape {
  int64_t in;
  int64_t width;
  int64_t stride;
  int64_t dilation;
};

Conv2d Convolution3x3(int64_t in, int64_t out, int64_t stride = 1, int64_t dilation = 1) {
  return Conv2d(
      Conv2dOptions(in, out, 3).stride(stride).padding(dilation).dilation(dilation).bias(false));
}

Conv2d Convolution1x1(int64_t in, int64_t out, int64_t stride = 1) {
  return Conv2d(Conv2dOptions(in, out, 1).stride(stride).bias(false));
}

/// The shortcut of a block that changes resolution or width: `0` convolution, `1` normalisation.
class DownsampleImpl : public torch::nn::Module {
 public:
  DownsampleImpl(int64_t in, int64_t out, int64_t stride)
      : conv_(register_module("0", Convolution1x1(in, out, stride))),
        norm_(register_module("1", FrozenBatchNorm2d(out))) {}

  at::Tensor forward(const at::Tensor& x) { return ConvolveAndNormalize(*conv_, *norm_, x); }

 private:
  Conv2d conv_;
  FrozenBatchNorm2d norm_;
};

TORCH_MODULE(Downsample);

class BasicBlockImpl : public ResidualBlock {
 public:
  BasicBlockImpl(const BlockShape& shape, Downsample downsample)
      : conv1_(register_module("conv1", Convolution3x3(shape.in, shape.width, shape.stride))),
        bn1_(register_module("bn1", FrozenBatchNorm2d(shape.width))),
        conv2_(register_module("conv2", Convolution3x3(shape.width, shape.width))),
        bn2_(register_module("bn2", FrozenBatchNorm2d(shape.width))),
        downsample_(std::move(downsample)) {
    if (downsample_) {
      register_module("downsample", downsample_);
    }
  }

  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor y = ConvolveAndNormalize(*conv1_, *bn1_, x).relu_();
    y = ConvolveAndNormalize(*conv2_, *bn2_, y);
    return y.add_(downsample_ ? downsample_->forward(x) : x).relu_();
  }

 private:
  Conv2d conv1_;
  FrozenBatchNorm2d bn1_;
  Conv2d conv2_;
  FrozenBatchNorm2d bn2_;
  Downsample downsample_;
};

class BottleneckImpl : public ResidualBlock {
 public:
  static constexpr int64_t kExpansion = 4;

  BottleneckImpl(const BlockShape& shape, Downsample downsample)
      : conv1_(register_module("conv1", Convolution1x1(shape.in, shape.width))),
        bn1_(register_module("bn1", FrozenBatchNorm2d(shape.width))),
        conv2_(register_module(
            "conv2", Convolution3x3(shape.width, shape.width, shape.stride, shape.dilation))),
        bn2_(register_module("bn2", FrozenBatchNorm2d(shape.width))),
        conv3_(register_module("conv3", Convolution1x1(shape.width, shape.width * kExpansion))),
        bn3_(register_module("bn3", FrozenBatchNorm2d(shape.width * kExpansion))),
        downsample_(std::move(downsample)) {
    if (downsample_) {
      register_module("downsample", downsample_);
    }
  }

  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor y = ConvolveAndNormalize(*conv1_, *bn1_, x).relu_();
    y = ConvolveAndNormalize(*conv2_, *bn2_, y).relu_();
    y = ConvolveAndNormalize(*conv3_, *bn3_, y);
    return y.add_(downsample_ ? downsample_->forward(x) : x).relu_();
  }

 private:
  Conv2d conv1_;
  FrozenBatchNorm2d bn1_;
  Conv2d conv2_;
  FrozenBatchNorm2d bn2_;
  Conv2d conv3_;
  FrozenBatchNorm2d bn3_;
  Downsample downsample_;
};

std::shared_ptr<ResidualBlock> MakeBlock(bool bottleneck,
                                         const BlockShape& shape,
                                         Downsample downsample) {
  if (bottleneck) {
    return std::make_shared<BottleneckImpl>(shape, std::move(downsample));
  }
  return std::make_shared<BasicBlockImpl>(shape, std::move(downsample));
}

}  // namespace

Result<ResNetShape> FindResNet(const std::string& name) {
  static const std::map<std::string, ResNetShape> shapes = {
      {"resnet18", {{2, 2, 2, 2}, false}},
      {"resnet34", {{3, 4, 6, 3}, false}},
      {"resnet50", {{3, 4, 6, 3}, true}},
      {"resnet101", {{3, 4, 23, 3}, true}},
      {"resnet152", {{3, 8, 36, 3}, true}},
  };
  const auto found = shapes.find(name);
  if (found == shapes.end()) {
    return InvalidArgument(
        "vision_backbone '{}' is not a network of this build; it has resnet18, resnet34, resnet50, "
        "resnet101 and "
        "resnet152",
        name);
  }
  return found->second;
}

ResNetImpl::ResNetImpl(const ResNetShape& shape, bool dilate_last_stage) : shape_(shape) {
  LR_CHECK(!dilate_last_stage || shape.bottleneck,
           "only bottleneck networks can dilate their last stage");
  conv1_ = register_module("conv1",
                           Conv2d(Conv2dOptions(3, channels_, 7).stride(2).padding(3).bias(false)));
  bn1_ = register_module("bn1", FrozenBatchNorm2d(channels_));
  AddStage(0, 1, false);
  AddStage(1, 2, false);
  AddStage(2, 2, false);
  AddStage(3, 2, dilate_last_stage);
  torch::nn::Linear classifier(channels_, 1000);  // drawn as in torchvision, never used
  DrawKaiming();
}

void ResNetImpl::AddStage(int index, int64_t stride, bool dilate) {
  const int64_t width = int64_t{64} << index;
  const int64_t out = shape_.bottleneck ? width * BottleneckImpl::kExpansion : width;
  const int64_t first_dilation = dilation_;
  if (dilate) {
    dilation_ *= stride;
    stride = 1;
  }
  Downsample downsample{nullptr};
  if (stride != 1 || channels_ != out) {
    downsample = Downsample(channels_, out, stride);
  }
  auto stage = std::make_shared<torch::nn::Module>();
  for (int64_t i = 0; i < shape_.blocks[index]; ++i) {
    const BlockShape block_shape = i == 0 ? BlockShape{channels_, width, stride, first_dilation}
                                          : BlockShape{out, width, 1, dilation_};
    blocks_.push_back(
        MakeBlock(shape_.bottleneck, block_shape, i == 0 ? downsample : Downsample(nullptr)));
    stage->register_module(std::to_string(i), blocks_.back());
  }
  channels_ = out;
  register_module("layer" + std::to_string(index + 1), stage);
}

void ResNetImpl::DrawKaiming() {
  for (const std::shared_ptr<torch::nn::Module>& module : modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2dImpl>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }
}

at::Tensor ResNetImpl::forward(const at::Tensor& images) {
  at::Tensor x = ConvolveAndNormalize(*conv1_, *bn1_, images).relu_();
  x = at::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (const std::shared_ptr<ResidualBlock>& block : blocks_) {
    x = block->forward(x);
  }
  return x;
}

}  // namespace lr::worker
