#pragma once
/// (pure) --numa-binding: which processors each worker of this node may use, from the machine's
/// topology and the device of each worker. The modes are torchrun's:
///
///   node          all processors of the device's NUMA node
///   socket        all processors of that node's socket
///   exclusive     the cores of the node, divided among the workers on it, without overlap
///   core-complex  one group of cores that share their last cache; the largest groups come first
///
/// Called by the placement planner; errors (kInvalidArgument) name the worker and the node.

#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::launcher {

/// Core, cache and socket are numbers that are equal for those who share them.
struct LogicalCpu {
  int id = 0;
  int core = 0;
  int cache = 0;  ///< of the last level
  int socket = 0;
  int node = 0;
};

struct CpuTopology {
  std::vector<LogicalCpu> cpus;   ///< those that this process may use, ascending
  std::vector<int> device_nodes;  ///< NUMA node of each GPU, by index
};

struct CpuBinding {
  std::vector<std::vector<int>> cpus;  ///< by local rank, ascending
  std::vector<std::string> notes;      ///< one line per worker
};

/// `devices`: GPU index of each worker; -1: none, the nodes are dealt out in turn.
Result<CpuBinding> ChooseCpus(const std::string& mode,
                              const CpuTopology& topology,
                              const std::vector<int>& devices);

/// Different cores among `cpus`; all of the topology's for an empty list.
int CountCores(const CpuTopology& topology, const std::vector<int>& cpus);

/// "0-3,8": ascending numbers as the kernel writes them.
std::string CpuListText(const std::vector<int>& cpus);

}  // namespace lr::launcher
