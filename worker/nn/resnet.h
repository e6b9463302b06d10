#pragma once
/// The ResNet trunk of vision policies: torchvision's network up to `layer4`, with frozen batch
/// normalisation.
///
/// Names and initial draws equal torchvision's (policies.md A.5, A.9): the classifier is drawn and
/// thrown away, the down-sampling convolution of a stage is drawn before its block's own.

#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

#include "common/base/status.h"
#include "worker/nn/frozen_batch_norm.h"

namespace lr::worker {

/// What distinguishes one ResNet from another.
struct ResNetShape {
  std::vector<int64_t> blocks;  ///< per stage
  bool bottleneck = false;      ///< three convolutions per block and four times the channels

  int64_t out_channels() const { return bottleneck ? 2048 : 512; }
};

/// Shape of resnet18, 34, 50, 101 or 152; kInvalidArgument names these for anything else.
Result<ResNetShape> FindResNet(const std::string& name);

/// One residual block; its forward is the unit's.
class ResidualBlock : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

class ResNetImpl : public torch::nn::Module {
 public:
  /// `dilate_last_stage`: layer4 keeps its input's resolution; bottleneck networks only (else
  /// kUnimplemented upstream, a failed check here: callers refuse it first).
  explicit ResNetImpl(const ResNetShape& shape, bool dilate_last_stage = false);

  /// images [B, 3, H, W] of any layout -> features [B, out_channels, H / 32, W / 32]
  /// (rounded up).
  at::Tensor forward(const at::Tensor& images);

 private:
  void AddStage(int index, int64_t stride, bool dilate);
  void DrawKaiming();

  const ResNetShape shape_;
  int64_t channels_ = 64;
  int64_t dilation_ = 1;
  torch::nn::Conv2d conv1_{nullptr};
  FrozenBatchNorm2d bn1_{nullptr};
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
};

TORCH_MODULE(ResNet);

}  // namespace lr::worker
