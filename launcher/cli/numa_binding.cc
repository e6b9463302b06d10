#include "launcher/cli/numa_binding.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

using Cpus = std::vector<LogicalCpu>;

Cpus OnNode(const CpuTopology& topology, int node) {
  Cpus found;
  std::ranges::copy_if(topology.cpus, std::back_inserter(found), [&](const LogicalCpu& cpu) {
    return cpu.node == node;
  });
  return found;
}

/// `cpus` in groups with equal `member`, in the order of the groups' first processors.
std::vector<Cpus> GroupedBy(const Cpus& cpus, int LogicalCpu::*member) {
  std::vector<Cpus> groups;
  std::map<int, size_t> index;
  for (const LogicalCpu& cpu : cpus) {
    const auto [at, is_new] = index.emplace(cpu.*member, groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    groups[at->second].push_back(cpu);
  }
  return groups;
}

/// One worker among those on the same node.
struct Place {
  int node = 0;
  size_t position = 0;
  size_t sharers = 1;
};

Result<Cpus> Exclusive(const CpuTopology& topology, const Place& place) {
  const std::vector<Cpus> cores = GroupedBy(OnNode(topology, place.node), &LogicalCpu::core);
  if (cores.size() < place.sharers) {
    return InvalidArgument("NUMA node {} has {} usable core(s) for {} workers",
                           place.node,
                           cores.size(),
                           place.sharers);
  }
  const size_t each = cores.size() / place.sharers;
  const size_t rest = cores.size() % place.sharers;  // the first ones get one more
  const size_t first = place.position * each + std::min(place.position, rest);
  const size_t count = each + (place.position < rest ? 1 : 0);
  Cpus chosen;
  for (size_t i = first; i < first + count; ++i) {
    chosen.insert(chosen.end(), cores[i].begin(), cores[i].end());
  }
  return chosen;
}

Cpus CoreComplex(const CpuTopology& topology, const Place& place) {
  std::vector<Cpus> groups = GroupedBy(OnNode(topology, place.node), &LogicalCpu::cache);
  std::ranges::stable_sort(groups, std::ranges::greater(), &Cpus::size);
  return groups[place.position % groups.size()];
}

Cpus Socket(const CpuTopology& topology, const Place& place) {
  const int socket = OnNode(topology, place.node).front().socket;
  Cpus found;
  std::ranges::copy_if(topology.cpus, std::back_inserter(found), [&](const LogicalCpu& cpu) {
    return cpu.socket == socket;
  });
  return found;
}

/// The node of `place` has usable processors.
Result<Cpus> Choose(const std::string& mode, const CpuTopology& topology, const Place& place) {
  if (mode == "exclusive") {
    return Exclusive(topology, place);
  }
  if (mode == "core-complex") {
    return CoreComplex(topology, place);
  }
  return mode == "socket" ? Socket(topology, place) : OnNode(topology, place.node);
}

Result<std::vector<Place>> FindPlaces(const CpuTopology& topology,
                                      const std::vector<int>& devices) {
  std::set<int> with_cpus;
  for (const LogicalCpu& cpu : topology.cpus) {
    with_cpus.insert(cpu.node);
  }
  const std::vector<int> nodes(with_cpus.begin(), with_cpus.end());
  std::vector<Place> places(devices.size());
  std::map<int, size_t> sharers;
  for (size_t i = 0; i < devices.size(); ++i) {
    const int device = devices[i];
    if (device >= static_cast<int>(topology.device_nodes.size())) {
      return InvalidArgument(
          "the NUMA node of GPU {} is not known ({} found); --numa-binding-cpu binds by local rank",
          device,
          topology.device_nodes.size());
    }
    places[i].node =
        device < 0 ? nodes[i % nodes.size()] : topology.device_nodes[static_cast<size_t>(device)];
    if (!with_cpus.contains(places[i].node)) {
      return InvalidArgument(
          "GPU {} is on NUMA node {}, none of whose processors this process may use",
          device,
          places[i].node);
    }
    places[i].position = sharers[places[i].node]++;
  }
  for (Place& place : places) {
    place.sharers = sharers[place.node];
  }
  return places;
}

}  // namespace

Result<CpuBinding> ChooseCpus(const std::string& mode,
                              const CpuTopology& topology,
                              const std::vector<int>& devices) {
  if (topology.cpus.empty()) {
    return InvalidArgument("the kernel does not tell which processors this machine has");
  }
  LR_ASSIGN(const std::vector<Place> places, FindPlaces(topology, devices));
  CpuBinding binding;
  for (size_t i = 0; i < places.size(); ++i) {
    LR_ASSIGN(const Cpus chosen, Choose(mode, topology, places[i]));
    std::vector<int> ids;
    for (const LogicalCpu& cpu : chosen) {
      ids.push_back(cpu.id);
    }
    std::ranges::sort(ids);
    binding.notes.push_back(
        fmt::format("local rank {} runs on CPUs {} ({} of NUMA node {}{})",
                    i,
                    CpuListText(ids),
                    mode,
                    places[i].node,
                    devices[i] < 0 ? "" : fmt::format(", where GPU {} is", devices[i])));
    binding.cpus.push_back(std::move(ids));
  }
  return binding;
}

int CountCores(const CpuTopology& topology, const std::vector<int>& cpus) {
  std::set<int> cores;
  for (const LogicalCpu& cpu : topology.cpus) {
    if (cpus.empty() || std::ranges::binary_search(cpus, cpu.id)) {
      cores.insert(cpu.core);
    }
  }
  return static_cast<int>(cores.size());
}

std::string CpuListText(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) {
      ++last;
    }
    text += text.empty() ? "" : ",";
    text += last == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace lr::launcher
