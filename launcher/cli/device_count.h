#pragma once
/// (pure) How many workers `--nproc-per-node gpu|cpu|xpu|auto` means on this machine (L-13):
/// devices present, cut by the vendor's visible-devices variable; processors present, cut by
/// affinity and CPU quota. The facts come from machine_probe.h.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"

namespace lr::launcher {

struct MachineFacts {
  int nvidia_devices = 0;  ///< device files, none of them opened
  int amd_devices = 0;
  int intel_devices = 0;
  int online_cpus = 1;
  int affinity_cpus = 1;    ///< of this process
  double quota_cpus = 0.0;  ///< of the control group; 0: no quota

  /// Of the vendor that counts: see VendorVariable().
  int most_devices() const {
    return nvidia_devices > 0 ? nvidia_devices : amd_devices > 0 ? amd_devices : intel_devices;
  }
};

struct ProcessCount {
  int count = 1;
  std::vector<std::string> notes;
};

/// A number, gpu, cpu, xpu or auto. `spelled` names the option in messages.
Result<ProcessCount> CountProcesses(const std::string& text,
                                    const std::string& spelled,
                                    const MachineFacts& machine,
                                    const EnvironmentReader& environment);

/// Processors that a worker group may use here: present, cut by affinity and quota.
ProcessCount CountCpus(const MachineFacts& machine);

/// How devices are selected on this node (L-13).
struct DeviceVariable {
  std::string sets;   ///< the variable that the launcher sets: the vendor's
  std::string reads;  ///< the one whose list counts now
  int present = 0;    ///< devices that can be selected
};

/// NVIDIA first, then AMD, then Intel; without any device NVIDIA's, which hides and selects alike.
DeviceVariable VendorVariable(const MachineFacts& machine, const EnvironmentReader& environment);

/// In a visible-devices variable: hides every device.
inline constexpr std::string_view kNoDevice = "-1";

/// Devices that a visible-devices list leaves of `present`: indices until the first impossible one,
/// as the drivers do; names (GPU-…, MIG-…) count one each; empty leaves none.
int CountVisible(std::string_view list, int present);

}  // namespace lr::launcher
