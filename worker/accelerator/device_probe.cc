#include "worker/accelerator/device_probe.h"

#include <ATen/Context.h>
#include <torch/cuda.h>

namespace lr::worker {

DeviceInventory ProbeDevices() {
  DeviceInventory inventory;
  inventory.cuda_devices = static_cast<int>(torch::cuda::device_count());
  inventory.cuda = inventory.cuda_devices > 0;
  inventory.mps = at::hasMPS();
  inventory.xpu = at::hasXPU();
  return inventory;
}

c10::Device DeviceOf(const DeviceChoice& choice) {
  return choice.backend == Backend::kCuda
             ? c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(choice.index))
             : c10::Device(c10::DeviceType::CPU);
}

}  // namespace lr::worker
