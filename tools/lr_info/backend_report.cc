#include "tools/lr_info/backend_report.h"

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr {

namespace {

BackendReport Cuda(const BackendFacts& facts) {
  if (facts.inventory.cuda) {
    return {"cuda",
            true,
            fmt::format(
                "{} device(s): {}", facts.inventory.cuda_devices, Join(facts.cuda_names, ", "))};
  }
  if (!facts.built_with_cuda) {
    return {"cuda", false, "this build is for the CPU: build with the preset 'gpu'"};
  }
  if (!facts.cuda_visible_devices.empty()) {
    return {"cuda",
            false,
            fmt::format("no device, CUDA_VISIBLE_DEVICES={}", facts.cuda_visible_devices)};
  }
  return {"cuda", false, "no driver or no device on this machine"};
}

}  // namespace

std::vector<BackendReport> ReportBackends(const BackendFacts& facts) {
  return {
      Cuda(facts),
      {"mps",
       facts.inventory.mps,
       facts.inventory.mps ? "Apple Silicon" : "needs LibTorch for macOS"},
      {"xpu",
       facts.inventory.xpu,
       facts.inventory.xpu ? "Intel GPU" : "this LibTorch has no XPU support"},
      {"cpu", true, "always"},
  };
}

}  // namespace lr
