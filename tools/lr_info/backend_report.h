#pragma once
/// (pure) What lr-info says about each backend: usable or not, and why not (policies.md D.3 rule
/// 8).

#include <string>
#include <vector>

#include "worker/accelerator/device_choice.h"

namespace lr {

struct BackendReport {
  std::string name;  ///< cuda, mps, xpu, cpu
  bool available = false;
  std::string detail;  ///< device names and count, or the reason
};

/// What the probe found out beside the inventory.
struct BackendFacts {
  worker::DeviceInventory inventory;
  bool built_with_cuda = false;
  std::vector<std::string> cuda_names;
  std::string cuda_visible_devices;  ///< CUDA_VISIBLE_DEVICES; empty when unset
};

/// In the order of automatic choice: cuda, mps, xpu, cpu.
std::vector<BackendReport> ReportBackends(const BackendFacts& facts);

}  // namespace lr
