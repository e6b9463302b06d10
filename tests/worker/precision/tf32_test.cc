/// --tf32 is one decision for products and convolutions; null changes nothing.
#include "worker/precision/tf32.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace lr::worker {
namespace {

TEST(Tf32Test, OneDecisionReachesMatmulAndConvolution) {
  for (const bool allow : {false, true, false}) {
    ApplyTf32(allow);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), allow);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), allow);
    EXPECT_EQ(DescribeTf32(),
              allow ? "TF32: matmul on, convolution on" : "TF32: matmul off, convolution off");
  }
}

TEST(Tf32Test, NullLeavesTheLibrarysSettings) {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(true);
  ApplyTf32(std::nullopt);
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
}

TEST(Tf32Test, ProcessorsGiveTheSameNumbersWithAllValues) {
  const at::Tensor a = at::randn({64, 64});
  ApplyTf32(false);
  const at::Tensor full = a.matmul(a);
  ApplyTf32(true);
  EXPECT_TRUE(at::equal(a.matmul(a), full));
}

}  // namespace
}  // namespace lr::worker
