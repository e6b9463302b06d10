/// Rows of the option table that come from `accelerate launch`, its launcher part (spec 1.3). What
/// they mean here is decided by accelerate_planner.h. Data only.

#include <array>

#include "launcher/cli/option_table.h"

namespace lr::launcher {
namespace {

using enum Option;
using enum ValueKind;

constexpr OptionSpec Value(Option option,
                           std::string_view name,
                           std::string_view metavar,
                           std::string_view help) {
  return {option, name, "", kValue, metavar, "", "", false, kAccelerateGroup, help};
}

constexpr OptionSpec Flag(Option option,
                          std::string_view name,
                          std::string_view short_name,
                          std::string_view help) {
  return {option, name, short_name, kFlag, "", "", "", false, kAccelerateGroup, help};
}

constexpr std::array kRows = std::to_array<OptionSpec>({
    Value(kDialect,
          "--dialect",
          "torchrun|accelerate",
          "Whose defaults and abbreviations hold; accelerate under that name and after `launch`."),
    Value(kNumProcesses,
          "--num-processes",
          "N",
          "Workers of all machines together; in this dialect one per GPU, or one, when not given."),
    Value(kNumMachines, "--num-machines", "N", "The same as --nnodes."),
    Value(kMachineRank, "--machine-rank", "K", "The same as --node-rank."),
    Value(kMainProcessIp, "--main-process-ip", "HOST", "Host of --rdzv-endpoint."),
    Value(kMainProcessPort,
          "--main-process-port",
          "PORT",
          "Port of --rdzv-endpoint; 0 on one machine: a free one."),
    Flag(kSameNetwork,
         "--same-network",
         "",
         "Makes no difference: the nodes find each other the same way in every network."),
    Value(kGpuIds,
          "--gpu-ids",
          "all|LIST",
          "Devices of this machine, for CUDA_VISIBLE_DEVICES (AMD: HIP_VISIBLE_DEVICES)."),
    Flag(kMultiGpu,
         "--multi-gpu",
         "",
         "Without --num-processes, one worker per GPU; an error when there is none."),
    Flag(kCpu, "--cpu", "", "Hide the devices from the workers."),
    Value(kNumCpuThreads,
          "--num-cpu-threads-per-process",
          "N",
          "OMP_NUM_THREADS of each worker; not given: the inherited one, with --cpu each worker's "
          "share of the cores, else 1."),
    Flag(kEnableCpuAffinity, "--enable-cpu-affinity", "", "The same as --numa-binding=node."),
    Flag(kQuiet, "--quiet", "-q", "Tell a failure in one line; the exit code stays."),
    Flag(kDebug, "--debug", "", "ACCELERATE_DEBUG_MODE=true for the workers."),
});

}  // namespace

std::span<const OptionSpec> AccelerateOptionRows() {
  return kRows;
}

}  // namespace lr::launcher
