/// Rows of the option table about how each worker is started. Data only.

#include <array>

#include "launcher/cli/option_table.h"

namespace lr::launcher {
namespace {

using enum Option;
using enum ValueKind;

constexpr std::array kRows = std::to_array<OptionSpec>({
    {kRunPath,
     "--run-path",
     "",
     kFlag,
     "",
     "",
     "PET_RUN_PATH",
     true,
     kProgramGroup,
     "PROGRAM is the path of a Python script, whatever its first line says; wins over "
     "--no-python."},
    {kPassLocalRank,
     "--pass-local-rank",
     "",
     kOptionalValue,
     "--local-rank|--local_rank",
     "",
     "",
     false,
     kProgramGroup,
     "Pass --local-rank=N to PROGRAM, as torch.distributed.launch did."},
    {kVirtualLocalRank,
     "--virtual-local-rank",
     "",
     kFlag,
     "",
     "",
     "PET_VIRTUAL_LOCAL_RANK",
     true,
     kProgramGroup,
     "Each worker gets LOCAL_RANK=0 and sees one device only."},
    {kOmpThreads,
     "--omp-threads",
     "",
     kValue,
     "N|auto",
     "",
     "",
     false,
     kProgramGroup,
     "OMP_NUM_THREADS of each worker; auto: the cores that it may use."},
    {kNumaBinding,
     "--numa-binding",
     "",
     kValue,
     "node|socket|exclusive|core-complex",
     "",
     "",
     true,
     kProgramGroup,
     "Bind each worker to processors near the GPU of its local rank; the mask is printed."},
    {kNumaBindingCpu,
     "--numa-binding-cpu",
     "",
     kFlag,
     "",
     "",
     "",
     false,
     kProgramGroup,
     "Bind by local rank instead of by GPU: the NUMA nodes are dealt out in turn."},
});

}  // namespace

std::span<const OptionSpec> WorkerOptionRows() {
  return kRows;
}

}  // namespace lr::launcher
