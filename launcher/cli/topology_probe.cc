#include "launcher/cli/topology_probe.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sched.h>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/cli/small_file.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCpus = 65'536;  // beyond this a list is no list of processors

/// "0-3,8" as numbers; empty for anything else.
std::vector<int> ReadCpuList(const std::string& text) {
  std::vector<int> cpus;
  for (const std::string& part : Split(Trim(text), ',')) {
    const std::vector<std::string> ends = Split(part, '-');
    const std::optional<int64_t> first = ParseInt(ends.front());
    const std::optional<int64_t> last = ParseInt(ends.back());
    if (!first || !last || ends.size() > 2 || *first < 0 || *last >= kMostCpus) {
      return {};
    }
    for (int64_t cpu = *first; cpu <= *last; ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

int ReadNumber(const fs::path& path, int otherwise) {
  const std::optional<int64_t> number = ParseInt(Trim(ReadSmallFile(path)));
  return number && *number >= 0 ? static_cast<int>(*number) : otherwise;
}

/// The lowest processor of a list, which then stands for all of them.
int Representative(const fs::path& list, int otherwise) {
  const std::vector<int> cpus = ReadCpuList(ReadSmallFile(list));
  return cpus.empty() ? otherwise : *std::ranges::min_element(cpus);
}

/// Who shares the last-level cache.
int CacheOf(const fs::path& cpu, int otherwise) {
  int level = 0;
  fs::path last;
  for (const fs::path& index : ListFolder(cpu / "cache")) {
    const int own = ReadNumber(index / "level", 0);
    if (own > level) {
      level = own;
      last = index;
    }
  }
  return level == 0 ? otherwise : Representative(last / "shared_cpu_list", otherwise);
}

std::map<int, int> NodeOfCpus(const std::string& root) {
  constexpr std::string_view kPrefix = "node";
  std::map<int, int> node_of;
  for (const fs::path& folder : ListFolder(root + "/sys/devices/system/node")) {
    const std::string name = folder.filename();
    const std::optional<int64_t> node =
        name.starts_with(kPrefix) ? ParseInt(name.substr(kPrefix.size())) : std::nullopt;
    if (!node) {
      continue;
    }
    for (const int cpu : ReadCpuList(ReadSmallFile(folder / "cpulist"))) {
      node_of[cpu] = static_cast<int>(*node);
    }
  }
  return node_of;
}

/// PCI addresses of the GPUs of the first vendor that has any, in the drivers' order. NVIDIA's
/// driver lists those that this container sees.
std::vector<std::string> GpuAddresses(const std::string& root) {
  std::vector<std::string> found;
  for (const fs::path& folder : ListFolder(root + "/proc/driver/nvidia/gpus")) {
    found.push_back(folder.filename());
  }
  for (const std::string_view vendor : {"0x10de", "0x1002", "0x8086"}) {
    if (!found.empty()) {
      break;
    }
    for (const fs::path& device : ListFolder(root + "/sys/bus/pci/devices")) {
      const std::string kind = ReadSmallFile(device / "class");  // display or accelerator
      if ((kind.starts_with("0x03") || kind.starts_with("0x12")) &&
          Trim(ReadSmallFile(device / "vendor")) == vendor) {
        found.push_back(device.filename());
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

CpuTopology ProbeTopology(const std::string& root, const std::vector<int>& allowed) {
  const std::map<int, int> node_of = NodeOfCpus(root);
  CpuTopology topology;
  for (const int id : allowed) {
    const fs::path cpu = fmt::format("{}/sys/devices/system/cpu/cpu{}", root, id);
    const auto node = node_of.find(id);
    topology.cpus.push_back({.id = id,
                             .core = Representative(cpu / "topology/thread_siblings_list", id),
                             .cache = CacheOf(cpu, id),
                             .socket = ReadNumber(cpu / "topology/physical_package_id", 0),
                             .node = node == node_of.end() ? 0 : node->second});
  }
  for (const std::string& address : GpuAddresses(root)) {
    // A machine with a single node often says -1.
    topology.device_nodes.push_back(
        ReadNumber(fmt::format("{}/sys/bus/pci/devices/{}/numa_node", root, address), 0));
  }
  return topology;
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

}  // namespace lr::launcher
