/// LibTorch keeps one switch for cuBLAS and one for cuDNN.
#include "worker/precision/tf32.h"

#include <ATen/Context.h>
#include <fmt/format.h>

namespace lr::worker {

void ApplyTf32(std::optional<bool> allow) {
  if (allow) {
    at::globalContext().setAllowTF32CuBLAS(*allow);
    at::globalContext().setAllowTF32CuDNN(*allow);
  }
}

std::string DescribeTf32() {
  const auto word = [](bool is_on) { return is_on ? "on" : "off"; };
  return fmt::format("TF32: matmul {}, convolution {}",
                     word(at::globalContext().allowTF32CuBLAS()),
                     word(at::globalContext().allowTF32CuDNN()));
}

}  // namespace lr::worker
