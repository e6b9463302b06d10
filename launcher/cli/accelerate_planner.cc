#include "launcher/cli/accelerate_planner.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/cli/option_values.h"

namespace lr::launcher {
namespace {

constexpr int kMostMachines = 16'384;
constexpr int kMostProcesses = 131'072;

/// Options of the two tools that say the same thing.
constexpr std::array kSame = std::to_array<std::pair<Option, Option>>({
    {Option::kNumProcesses, Option::kNprocPerNode},
    {Option::kNumMachines, Option::kNnodes},
    {Option::kMachineRank, Option::kNodeRank},
    {Option::kMainProcessIp, Option::kRdzvEndpoint},
    {Option::kMainProcessIp, Option::kMasterAddr},
    {Option::kMainProcessPort, Option::kRdzvEndpoint},
    {Option::kMainProcessPort, Option::kMasterPort},
    {Option::kNumCpuThreads, Option::kOmpThreads},
    {Option::kEnableCpuAffinity, Option::kNumaBinding},
    {Option::kCpu, Option::kMultiGpu},
});

bool OnCommandLine(const CommandLine& line, Option option) {
  return line.has(option) && line.given.at(option).source == ValueSource::kCommandLine;
}

Status CheckConflicts(const CommandLine& line) {
  for (const auto& [one, other] : kSame) {
    if (line.has(one) && OnCommandLine(line, other)) {
      return InvalidArgument(
          "{} and {} exclude each other: give one of them", line.spelled(one), line.spelled(other));
    }
  }
  return {};
}

/// A value that the translation gives a torchrun option.
void Set(CommandLine& line, Option option, std::string text, std::string spelled) {
  line.given[option] = {std::move(text), ValueSource::kCommandLine, std::move(spelled)};
}

void SetDefault(CommandLine& line, Option option, std::string text) {
  const std::string spelled = fmt::format("{}={} (by default)", SpecOf(option).name, text);
  line.given[option] = {std::move(text), ValueSource::kDefault, spelled};
}

void Rename(CommandLine& line, Option from, Option to) {
  if (line.has(from)) {
    Set(line, to, line.text(from), line.spelled(from));
  }
}

Result<int> Machines(const CommandLine& line) {
  if (line.has(Option::kNumMachines)) {
    return ReadWhole(
        line.text(Option::kNumMachines), line.spelled(Option::kNumMachines), 1, kMostMachines);
  }
  LR_ASSIGN(const auto range,
            ReadNodeRange(line.text(Option::kNnodes), line.spelled(Option::kNnodes)));
  return range.second;
}

bool HasGpu(const PlanningFacts& facts) {
  return CountProcesses("gpu", "", facts.machine, facts.environment).ok();
}

/// --num-processes is the total over all machines.
Status TranslateProcesses(CommandLine& line, int machines, const PlanningFacts& facts) {
  if (line.has(Option::kNumProcesses)) {
    const std::string spelled = line.spelled(Option::kNumProcesses);
    LR_ASSIGN(const int total,
              ReadWhole(line.text(Option::kNumProcesses), spelled, 1, kMostProcesses));
    if (total % machines != 0) {
      return InvalidArgument(
          "{} is the number of processes of all machines together: {} / {} machines = {}, {} left "
          "over; give a multiple of {}",
          spelled,
          total,
          machines,
          total / machines,
          total % machines,
          machines);
    }
    Set(line, Option::kNprocPerNode, std::to_string(total / machines), spelled);
    return {};
  }
  if (line.has(Option::kNprocPerNode)) {
    return {};
  }
  if (line.flag(Option::kMultiGpu)) {
    Set(line, Option::kNprocPerNode, "gpu", line.spelled(Option::kMultiGpu));
  } else if (line.dialect == Dialect::kAccelerate) {
    SetDefault(line, Option::kNprocPerNode, HasGpu(facts) ? "gpu" : "1");
  }
  return {};
}

/// Both parts of the address come together in --rdzv-endpoint; a port alone is one machine's.
Status TranslateAddress(CommandLine& line, int machines) {
  const bool has_port = line.has(Option::kMainProcessPort);
  if (has_port) {
    LR_TRY(ReadWhole(
        line.text(Option::kMainProcessPort), line.spelled(Option::kMainProcessPort), 0, 65'535));
  }
  if (!line.has(Option::kMainProcessIp)) {
    if (has_port && machines > 1) {
      return InvalidArgument("{}: --main-process-ip is missing, the address of machine 0",
                             line.spelled(Option::kMainProcessPort));
    }
    Rename(line, Option::kMainProcessPort, Option::kMasterPort);
    return {};
  }
  std::string spelled = line.spelled(Option::kMainProcessIp);
  LR_ASSIGN(const HostAndPort address, ReadEndpoint(line.text(Option::kMainProcessIp), spelled));
  if (address.port) {
    return InvalidArgument("{}: takes a host only; the port is --main-process-port", spelled);
  }
  const bool v6 = address.host.find(':') != std::string::npos;
  std::string endpoint = v6 ? fmt::format("[{}]", address.host) : address.host;
  if (has_port) {
    endpoint = fmt::format("{}:{}", endpoint, line.text(Option::kMainProcessPort));
    spelled = fmt::format("{} {}", spelled, line.spelled(Option::kMainProcessPort));
  }
  Set(line, Option::kRdzvEndpoint, endpoint, spelled);
  return {};
}

void TranslateThreads(CommandLine& line, const PlanningFacts& facts) {
  Rename(line, Option::kNumCpuThreads, Option::kOmpThreads);
  const bool decided =
      line.has(Option::kOmpThreads) || facts.environment("OMP_NUM_THREADS").has_value();
  if (line.dialect == Dialect::kAccelerate && !decided) {
    SetDefault(line, Option::kOmpThreads, line.flag(Option::kCpu) ? "auto" : "1");
  }
}

}  // namespace

Result<CommandLine> TranslateAccelerate(CommandLine line, const PlanningFacts& facts) {
  LR_TRY(CheckConflicts(line));
  LR_ASSIGN(const int machines, Machines(line));
  Rename(line, Option::kNumMachines, Option::kNnodes);
  Rename(line, Option::kMachineRank, Option::kNodeRank);
  LR_TRY(TranslateProcesses(line, machines, facts));
  LR_TRY(TranslateAddress(line, machines));
  TranslateThreads(line, facts);
  if (line.flag(Option::kEnableCpuAffinity)) {
    Set(line, Option::kNumaBinding, "node", line.spelled(Option::kEnableCpuAffinity));
  }
  return line;
}

Status CheckMachineRank(const CommandLine& line) {
  if (!line.has(Option::kNumMachines)) {
    return {};
  }
  LR_ASSIGN(const int machines, Machines(line));
  if (machines > 1 && line.text(Option::kRdzvBackend) == "static" && !line.has(Option::kNodeRank)) {
    return InvalidArgument("{}: --machine-rank is missing, the index of this machine (0 to {})",
                           line.spelled(Option::kNumMachines),
                           machines - 1);
  }
  return {};
}

EnvironmentReader WithChosenDevices(const CommandLine& line, const PlanningFacts& facts) {
  const std::string list = line.text(Option::kGpuIds);
  const bool chosen = line.has(Option::kGpuIds) && list != "all";
  if (!chosen && !line.flag(Option::kCpu)) {
    return facts.environment;
  }
  const std::string variable = VendorVariable(facts.machine, facts.environment).sets;
  return [variable,
          value = line.flag(Option::kCpu) ? std::string(kNoDevice) : list,
          environment = facts.environment](const std::string& name) {
    return name == variable ? std::optional<std::string>(value) : environment(name);
  };
}

}  // namespace lr::launcher
