#include "launcher/cli/device_count.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

constexpr int kMaxProcesses = 4096;  // per node; more is a typing error

/// AMD: HIP_VISIBLE_DEVICES, else CUDA_VISIBLE_DEVICES, else ROCR_VISIBLE_DEVICES (L-13).
ProcessCount CountAmd(const MachineFacts& machine, const EnvironmentReader& environment) {
  ProcessCount result{.count = machine.amd_devices, .notes = {}};
  std::optional<std::string> winner_value;
  std::string winner;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
    const std::optional<std::string> value = environment(name);
    if (value && !winner_value) {
      winner_value = value;
      winner = name;
    } else if (value && *value != *winner_value) {
      result.notes.push_back(fmt::format(
          "{}={} differs from {}={}: {} is used", name, *value, winner, *winner_value, winner));
    }
  }
  if (winner_value) {
    result.count = CountVisible(*winner_value, machine.amd_devices);
  }
  return result;
}

ProcessCount CountListed(const char* variable, int present, const EnvironmentReader& environment) {
  const std::optional<std::string> list = environment(variable);
  return {.count = list ? CountVisible(*list, present) : present, .notes = {}};
}

ProcessCount CountGpus(const MachineFacts& machine, const EnvironmentReader& environment) {
  if (machine.nvidia_devices == 0 && machine.amd_devices > 0) {
    return CountAmd(machine, environment);
  }
  return CountListed("CUDA_VISIBLE_DEVICES", machine.nvidia_devices, environment);
}

ProcessCount CountXpus(const MachineFacts& machine, const EnvironmentReader& environment) {
  return CountListed("ZE_AFFINITY_MASK", machine.intel_devices, environment);
}

Result<ProcessCount> NeedOne(ProcessCount counted,
                             const std::string& spelled,
                             int present,
                             std::string_view what) {
  if (counted.count > 0) {
    return counted;
  }
  if (present > 0) {
    return InvalidArgument(
        "{}: this node has {} {} device(s), but the visible-devices variable hides all of them",
        spelled,
        present,
        what);
  }
  return InvalidArgument(
      "{}: this node has no {} device; give a number, cpu or auto", spelled, what);
}

}  // namespace

ProcessCount CountCpus(const MachineFacts& machine) {
  ProcessCount result{.count = machine.online_cpus, .notes = {}};
  std::string why;
  if (machine.affinity_cpus < result.count) {
    result.count = machine.affinity_cpus;
    why = "the affinity mask";
  }
  const int quota = static_cast<int>(std::ceil(machine.quota_cpus));
  if (quota > 0 && quota < result.count) {
    result.count = quota;
    why = fmt::format("the CPU quota of {:.2g}", machine.quota_cpus);
  }
  if (!why.empty()) {
    result.notes.push_back(fmt::format(
        "{} of {} processors are used: {} leaves no more", result.count, machine.online_cpus, why));
  }
  return result;
}

DeviceVariable VendorVariable(const MachineFacts& machine, const EnvironmentReader& environment) {
  if (machine.nvidia_devices > 0) {
    return {"CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", machine.nvidia_devices};
  }
  if (machine.amd_devices > 0) {
    // ROCR_VISIBLE_DEVICES acts below HIP, whose indices then count within its list.
    const std::optional<std::string> below = environment("ROCR_VISIBLE_DEVICES");
    const int present = below ? CountVisible(*below, machine.amd_devices) : machine.amd_devices;
    const bool by_cuda = !environment("HIP_VISIBLE_DEVICES") && environment("CUDA_VISIBLE_DEVICES");
    return {
        "HIP_VISIBLE_DEVICES", by_cuda ? "CUDA_VISIBLE_DEVICES" : "HIP_VISIBLE_DEVICES", present};
  }
  if (machine.intel_devices > 0) {
    return {"ZE_AFFINITY_MASK", "ZE_AFFINITY_MASK", machine.intel_devices};
  }
  return {"CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", 0};
}

int CountVisible(std::string_view list, int present) {
  int count = 0;
  if (Trim(list).empty()) {
    return 0;
  }
  for (const std::string& part : Split(list, ',')) {
    const std::string_view entry = Trim(part);
    const std::string_view device = entry.substr(0, entry.find('.'));  // Intel: device.tile
    const std::optional<int64_t> index = ParseInt(device);
    if (entry.empty() || (index && (*index < 0 || *index >= present))) {
      break;
    }
    ++count;
  }
  return count;
}

Result<ProcessCount> CountProcesses(const std::string& text,
                                    const std::string& spelled,
                                    const MachineFacts& machine,
                                    const EnvironmentReader& environment) {
  if (text == "cpu") {
    return CountCpus(machine);
  }
  if (text == "gpu") {
    return NeedOne(CountGpus(machine, environment),
                   spelled,
                   machine.nvidia_devices + machine.amd_devices,
                   "GPU");
  }
  if (text == "xpu") {
    return NeedOne(CountXpus(machine, environment), spelled, machine.intel_devices, "XPU");
  }
  if (text == "auto") {
    for (ProcessCount counted :
         {CountGpus(machine, environment), CountXpus(machine, environment)}) {
      if (counted.count > 0) {
        return counted;
      }
    }
    return CountCpus(machine);
  }
  const std::optional<int64_t> number = ParseInt(text);
  if (!number || *number < 1 || *number > kMaxProcesses) {
    return InvalidArgument(
        "{}: must be a number from 1 to {}, or gpu, cpu, xpu, auto", spelled, kMaxProcesses);
  }
  return ProcessCount{.count = static_cast<int>(*number), .notes = {}};
}

}  // namespace lr::launcher
