/// Autocast is in force exactly while its guard lives, and no copy of a weight survives it.
#include "worker/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace lr::worker {
namespace {

at::Tensor Product(const at::Tensor& weight) {
  return at::matmul(at::ones({1, 4}), weight);
}

TEST(AutocastGuardTest, LowersProductsInsideOnly) {
  const at::Tensor weight = at::randn({4, 4});
  EXPECT_EQ(Product(weight).scalar_type(), at::kFloat);
  {
    const AutocastGuard guard(at::kCPU, at::kBFloat16, true);
    EXPECT_EQ(Product(weight).scalar_type(), at::kBFloat16);
    {
      const AutocastGuard none(at::kCPU, std::nullopt, true);
      EXPECT_EQ(Product(weight).scalar_type(), at::kBFloat16);
    }
    EXPECT_EQ(Product(weight).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(Product(weight).scalar_type(), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(AutocastGuardTest, ChangedWeightIsSeenByTheNextForward) {
  at::Tensor weight = at::ones({4, 4}, at::requires_grad());
  {
    const AutocastGuard guard(at::kCPU, at::kBFloat16, true);
    EXPECT_EQ(Product(weight)[0][0].item<float>(), 4.0F);
  }
  {
    const at::NoGradGuard no_grad;
    weight.mul_(2);
  }
  const AutocastGuard guard(at::kCPU, at::kBFloat16, true);
  EXPECT_EQ(Product(weight)[0][0].item<float>(), 8.0F);
}

}  // namespace
}  // namespace lr::worker
