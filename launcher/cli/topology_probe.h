#pragma once
/// Reads the processors, caches, NUMA nodes and GPUs of the machine from sysfs for --numa-binding
/// and --omp-threads=auto; opens no device. Called only when one of them is asked for. What cannot
/// be read counts as one node, one socket, or no GPU; it never fails.

#include <string>
#include <vector>

#include "launcher/cli/numa_binding.h"

namespace lr::launcher {

/// `root` is put before every path ("" in programs, a prepared folder in tests); `allowed`: CPUs
/// that may be used.
CpuTopology ProbeTopology(const std::string& root, const std::vector<int>& allowed);

/// This process's affinity mask.
std::vector<int> AllowedCpus();

}  // namespace lr::launcher
