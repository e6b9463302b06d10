#pragma once
/// The model of the recorded numbers in tests/data/fsdp_numbers: three pre-norm transformer blocks
/// of width 18 (rows do not divide by 4; a one-element parameter leaves ranks empty), each a unit.

#include <cmath>
#include <string>
#include <vector>

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/normalization.h>

#include "worker/checkpoint/safetensors.h"
#include "worker/nn/linear.h"
#include "worker/parallel/unit_module.h"

namespace lr::worker::testing {

constexpr int64_t kWidth = 18;
constexpr int64_t kHeads = 3;
constexpr int64_t kFeedForward = 26;
constexpr int64_t kBlocks = 3;

class BlockImpl : public UnitModule {
 public:
  BlockImpl() : UnitModule("Block") {
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    qkv = register_module("qkv", Linear(kWidth, 3 * kWidth));
    proj = register_module("proj", Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
    up = register_module("up", Linear(kWidth, kFeedForward));
    down = register_module("down", Linear(kFeedForward, kWidth));
    gain = register_parameter("gain", torch::ones({1}));
  }

  at::Tensor forward(const at::Tensor& x) {
    return CallAsUnit([this](const at::Tensor& in) { return Run(in); }, x);
  }

  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr};
  at::Tensor gain;

 private:
  at::Tensor Run(const at::Tensor& in) {
    const int64_t b = in.size(0);
    const int64_t t = in.size(1);
    const std::vector<at::Tensor> parts = qkv(norm1(in)).split(kWidth, -1);
    const auto heads = [&](const at::Tensor& part) {
      return part.reshape({b, t, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const at::Tensor scores = heads(parts[0]).matmul(heads(parts[1]).transpose(-2, -1)) /
                              std::sqrt(static_cast<double>(kWidth / kHeads));
    const at::Tensor mixed =
        torch::softmax(scores, -1).matmul(heads(parts[2])).transpose(1, 2).reshape({b, t, kWidth});
    const at::Tensor x = in + gain * proj(mixed);
    return x + down(at::gelu(up(norm2(x))));
  }
};

TORCH_MODULE(Block);

class NetImpl : public torch::nn::Module {
 public:
  NetImpl() {
    embed = register_module("embed", Linear(7, kWidth));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int64_t i = 0; i < kBlocks; ++i) {
      blocks->push_back(Block());
    }
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    head = register_module("head", Linear(kWidth, 4));
  }

  at::Tensor forward(const at::Tensor& in) {
    at::Tensor x = embed(in);
    for (const size_t block : order) {
      x = blocks->at<BlockImpl>(block).forward(x);
    }
    return head(norm(x));
  }

  std::vector<size_t> order = {0, 1, 2};
  Linear embed{nullptr}, head{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

inline std::string NumbersFile(const std::string& name) {
  return std::string(LR_TEST_DATA) + "/fsdp_numbers/" + name;
}

inline std::map<std::string, at::Tensor> LoadNumbers(const std::string& name) {
  auto file = SafetensorsFile::Open(NumbersFile(name));
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto tensors = file->LoadAll();
  EXPECT_TRUE(tensors.ok());
  std::map<std::string, at::Tensor> all;
  for (const auto& [key, tensor] : *tensors) {
    all[key] = tensor;
  }
  return all;
}

/// The recorded start.
inline std::shared_ptr<NetImpl> MakeNet() {
  auto net = std::make_shared<NetImpl>();
  const at::NoGradGuard no_grad;
  const auto weights = LoadNumbers("init.safetensors");
  for (auto& item : net->named_parameters()) {
    item.value().copy_(weights.at(item.key()));
  }
  return net;
}

}  // namespace lr::worker::testing
