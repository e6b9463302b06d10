#pragma once
/// (pure) Which device a process trains on (policies.md D.3): one decision that model, batches,
/// optimizer, checkpoint loading and collectives all obey.

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

enum class Backend { kCpu, kCuda, kMps, kXpu };

/// What the machine and the linked LibTorch can use.
struct DeviceInventory {
  bool cuda = false;
  bool mps = false;
  bool xpu = false;
  int cuda_devices = 0;
};

struct DeviceChoice {
  Backend backend = Backend::kCpu;
  int index = 0;                   ///< local rank's device; 0 on cpu
  std::string name;                ///< "cpu", "cuda", … as stored in config.json
  std::vector<std::string> notes;  ///< info lines, in order
  std::vector<std::string>
      warnings;  ///< an explicitly requested device that is not there, no accelerator at all
};

/// `requested`: `--policy.device` (cpu, cuda, cuda:N, mps, xpu) or nothing for the first of cuda,
/// mps, xpu, cpu. Errors: kInvalidArgument for another word, listing the four; kFailedPrecondition
/// when this local rank has no device of its own, or when several processes would need a backend
/// without collectives.
Result<DeviceChoice> ChooseDevice(const std::optional<std::string>& requested,
                                  const DeviceInventory& inventory,
                                  int local_rank,
                                  int world_size);

}  // namespace lr::worker
