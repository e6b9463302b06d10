#include "launcher/cli/placement_planner.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/cli/option_values.h"

namespace lr::launcher {
namespace {

constexpr int kMostThreads = 4096;

/// The devices of this node, as the variable of their vendor selects them.
struct VisibleDevices {
  DeviceVariable variable;
  std::vector<std::string> list = {};  ///< one entry per device; empty when nothing is selected
  bool selected = false;               ///< the variable is set
};

VisibleDevices ReadVisible(const PlanningFacts& facts) {
  VisibleDevices visible{.variable = VendorVariable(facts.machine, facts.environment)};
  if (const std::optional<std::string> value = facts.environment(visible.variable.reads)) {
    visible.selected = true;
    for (const std::string& part : Split(*value, ',')) {
      if (!Trim(part).empty()) {
        visible.list.emplace_back(Trim(part));
      }
    }
  }
  return visible;
}

/// Each worker's device needs to exist.
Status CheckDevices(const std::string& spelled, const VisibleDevices& visible, size_t workers) {
  const auto present = static_cast<size_t>(visible.variable.present);
  if (visible.selected && visible.list.size() < workers) {
    return InvalidArgument("{}: {} lists {} device(s), but this node has {} workers",
                           spelled,
                           visible.variable.reads,
                           visible.list.size(),
                           workers);
  }
  if (!visible.selected && present > 0 && present < workers) {
    return InvalidArgument(
        "{}: this node has {} device(s) for {} workers", spelled, present, workers);
  }
  return {};
}

/// --gpu-ids, --cpu and --debug of accelerate launch.
Status PlanAccelerate(const CommandLine& line, const PlanningFacts& facts, PlacementPlan& plan) {
  const std::string variable = VendorVariable(facts.machine, facts.environment).sets;
  std::string devices;
  if (line.flag(Option::kCpu)) {
    devices = kNoDevice;
  } else if (line.has(Option::kGpuIds) && line.text(Option::kGpuIds) != "all") {
    devices = line.text(Option::kGpuIds);
    const size_t listed = ReadVisible(facts).list.size();
    if (listed < plan.workers.size()) {
      return InvalidArgument("{}: {} device(s) for {} workers",
                             line.spelled(Option::kGpuIds),
                             listed,
                             plan.workers.size());
    }
  }
  for (WorkerPlacement& worker : plan.workers) {
    if (!devices.empty()) {
      worker.variables[variable] = devices;
    }
    if (line.flag(Option::kDebug)) {
      worker.variables["ACCELERATE_DEBUG_MODE"] = "true";
    }
  }
  return {};
}

/// LOCAL_RANK 0 and one device for everybody; the list that was there is mapped through.
Status PlanVirtualRanks(const CommandLine& line, const PlanningFacts& facts, PlacementPlan& plan) {
  const VisibleDevices visible = ReadVisible(facts);
  LR_TRY(CheckDevices(line.spelled(Option::kVirtualLocalRank), visible, plan.workers.size()));
  for (size_t i = 0; i < plan.workers.size(); ++i) {
    plan.workers[i].variables["LOCAL_RANK"] = std::string("0");
    plan.workers[i].variables[visible.variable.sets] =
        visible.selected ? visible.list[i] : std::to_string(i);
  }
  return {};
}

/// The GPU index of each worker, the one of its local rank; -1 when local ranks count by
/// themselves.
Result<std::vector<int>> BindingDevices(const CommandLine& line,
                                        const PlanningFacts& facts,
                                        size_t workers) {
  std::vector<int> devices(workers, -1);
  if (line.flag(Option::kNumaBindingCpu)) {
    return devices;
  }
  const std::string spelled = line.spelled(Option::kNumaBinding);
  const VisibleDevices visible = ReadVisible(facts);
  if (visible.variable.present == 0) {
    return InvalidArgument(
        "{}: this node has no GPU whose place could be followed; --numa-binding-cpu binds by local "
        "rank",
        spelled);
  }
  LR_TRY(CheckDevices(spelled, visible, workers));
  for (size_t i = 0; i < workers; ++i) {
    const std::optional<int64_t> index =
        visible.selected ? ParseInt(visible.list[i]) : std::optional(static_cast<int64_t>(i));
    if (!index || *index < 0 || *index >= facts.machine.most_devices()) {
      return InvalidArgument("{}: {} names '{}', but only indices of devices can be followed",
                             spelled,
                             visible.variable.reads,
                             visible.list[i]);
    }
    devices[i] = static_cast<int>(*index);
  }
  return devices;
}

Status PlanBinding(const CommandLine& line,
                   const PlanningFacts& facts,
                   const CpuTopology& topology,
                   PlacementPlan& plan) {
  const std::string spelled = line.spelled(Option::kNumaBinding);
  const std::string mode = line.text(Option::kNumaBinding);
  LR_TRY(CheckWord(mode, spelled, {"node", "socket", "exclusive", "core-complex"}));
  LR_ASSIGN(const std::vector<int> devices, BindingDevices(line, facts, plan.workers.size()));
  Result<CpuBinding> binding = ChooseCpus(mode, topology, devices);
  if (!binding.ok()) {
    return binding.status().WithContext("{}", spelled);
  }
  for (size_t i = 0; i < plan.workers.size(); ++i) {
    plan.workers[i].cpus = std::move(binding->cpus[i]);
  }
  plan.notes.insert(plan.notes.end(), binding->notes.begin(), binding->notes.end());
  return {};
}

/// E-4: the cores of the worker's processors; unbound, its share of this node's usable ones.
int ThreadsOf(const WorkerPlacement& worker,
              const CpuTopology& topology,
              const MachineFacts& machine,
              size_t workers) {
  if (!worker.cpus.empty()) {
    return CountCores(topology, worker.cpus);
  }
  const int usable = std::min(CountCores(topology, {}), CountCpus(machine).count);
  return std::max(1, usable / static_cast<int>(workers));
}

Status PlanThreads(const CommandLine& line,
                   const PlanningFacts& facts,
                   const CpuTopology& topology,
                   PlacementPlan& plan) {
  const std::string text = line.text(Option::kOmpThreads);
  int fixed = 0;
  if (text != "auto") {
    LR_ASSIGN(fixed, ReadWhole(text, line.spelled(Option::kOmpThreads), 1, kMostThreads));
  }
  for (WorkerPlacement& worker : plan.workers) {
    const int threads =
        fixed != 0 ? fixed : ThreadsOf(worker, topology, facts.machine, plan.workers.size());
    worker.variables["OMP_NUM_THREADS"] = std::to_string(threads);
  }
  return {};
}

}  // namespace

Result<PlacementPlan> PlanPlacement(const CommandLine& line,
                                    int local_size,
                                    const PlanningFacts& facts) {
  PlacementPlan plan;
  plan.workers.resize(static_cast<size_t>(local_size));
  const bool binds = line.has(Option::kNumaBinding);
  if (line.flag(Option::kNumaBindingCpu) && !binds) {
    return InvalidArgument("{}: needs --numa-binding=node, socket, exclusive or core-complex",
                           line.spelled(Option::kNumaBindingCpu));
  }
  LR_TRY(PlanAccelerate(line, facts, plan));
  if (line.flag(Option::kVirtualLocalRank)) {
    LR_TRY(PlanVirtualRanks(line, facts, plan));
  }
  const bool asks = binds || line.text(Option::kOmpThreads) == "auto";
  const CpuTopology topology = asks ? facts.topology() : CpuTopology();
  if (binds) {
    LR_TRY(PlanBinding(line, facts, topology, plan));
  }
  if (line.has(Option::kOmpThreads)) {  // else torchrun's rule holds: worker_variables.h
    LR_TRY(PlanThreads(line, facts, topology, plan));
  }
  return plan;
}

}  // namespace lr::launcher
