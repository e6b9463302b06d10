// Linear in bfloat16: the bias is added before rounding, as Python's Linear does.
#include "worker/nn/linear.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/linear.h>

namespace lr::worker {
namespace {

TEST(LinearTest, AddsItsBiasBeforeRounding) {
  at::manual_seed(7);
  Linear layer(64, 32);
  layer->to(at::kBFloat16);
  const at::Tensor input = at::randn({5, 4, 64}).to(at::kBFloat16);
  const at::Tensor output = layer->forward(input);
  EXPECT_TRUE(at::equal(output, at::linear(input, layer->weight, layer->bias)));
  // The base class rounds the product first: some of its results are one step away.
  EXPECT_FALSE(at::equal(output, torch::nn::functional::linear(input, layer->weight, layer->bias)));
  const at::Tensor exact =
      at::linear(input.to(at::kDouble), layer->weight.to(at::kDouble), layer->bias.to(at::kDouble));
  EXPECT_LE((output.to(at::kDouble) - exact).abs().max().item<double>(), 0.01);
}

}  // namespace
}  // namespace lr::worker
