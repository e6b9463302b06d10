#include "launcher/cli/option_table.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/base/check.h"

namespace lr::launcher {
namespace {

constexpr std::string_view kSize = "How many processes";
constexpr std::string_view kMeet = "Where the nodes meet";
constexpr std::string_view kProgram = kProgramGroup;
constexpr std::string_view kStop = "Failing and stopping";
constexpr std::string_view kOther = "Records and checks";

using enum Option;
using enum ValueKind;

constexpr std::array kTable = std::to_array<OptionSpec>({
    {kNnodes,
     "--nnodes",
     "",
     kValue,
     "N",
     "1",
     "PET_NNODES",
     true,
     kSize,
     "Number of nodes (machines)."},
    {kNprocPerNode,
     "--nproc-per-node",
     "",
     kValue,
     "N|gpu|cpu|xpu|auto",
     "1",
     "PET_NPROC_PER_NODE",
     true,
     kSize,
     "Workers on this node; gpu: one per visible GPU, auto: gpu if there is one, else cpu."},
    {kNodeRank,
     "--node-rank",
     "",
     kValue,
     "K",
     "0",
     "PET_NODE_RANK",
     true,
     kSize,
     "This node's index, 0 to N-1: node K holds the ranks that follow those of node K-1."},
    {kStandalone,
     "--standalone",
     "",
     kFlag,
     "",
     "",
     "PET_STANDALONE",
     true,
     kMeet,
     "One node only: free port and random run id; overrides the three rendezvous options."},
    {kRdzvEndpoint,
     "--rdzv-endpoint",
     "",
     kValue,
     "HOST[:PORT]",
     "",
     "PET_RDZV_ENDPOINT",
     true,
     kMeet,
     "Address of node 0; port 29500 (29400 with c10d) unless given."},
    {kRdzvBackend,
     "--rdzv-backend",
     "",
     kValue,
     "static|c10d",
     "static",
     "PET_RDZV_BACKEND",
     true,
     kMeet,
     "static: ranks by --node-rank; c10d: the nodes agree on ranks."},
    {kRdzvId,
     "--rdzv-id",
     "",
     kValue,
     "ID",
     "none",
     "PET_RDZV_ID",
     true,
     kMeet,
     "Name that all nodes of this run share."},
    {kRdzvConf,
     "--rdzv-conf",
     "",
     kValue,
     "K=V,...",
     "",
     "PET_RDZV_CONF",
     true,
     kMeet,
     "Limits in seconds: join_timeout 600, commit_timeout 10, keep_alive_interval 1, "
     "suspect_timeout "
     "5, lost_timeout 15, host_lost_timeout 60; keep_alive_max_attempt; is_host=0|1."},
    {kMasterAddr,
     "--master-addr",
     "",
     kValue,
     "HOST",
     "127.0.0.1",
     "PET_MASTER_ADDR",
     true,
     kMeet,
     "Address of node 0, the older form of --rdzv-endpoint."},
    {kMasterPort,
     "--master-port",
     "",
     kValue,
     "PORT",
     "29500",
     "PET_MASTER_PORT",
     true,
     kMeet,
     "Port of rank 0 on node 0."},
    {kLocalAddr,
     "--local-addr",
     "",
     kValue,
     "ADDR|@INTERFACE",
     "",
     "PET_LOCAL_ADDR",
     true,
     kMeet,
     "Address of this node that the others use."},
    {kModule,
     "--module",
     "-m",
     kFlag,
     "",
     "",
     "PET_MODULE",
     true,
     kProgram,
     "PROGRAM is a Python module: python -m PROGRAM."},
    {kNoPython,
     "--no-python",
     "",
     kFlag,
     "",
     "",
     "PET_NO_PYTHON",
     true,
     kProgram,
     "Execute PROGRAM itself, whatever it is."},
    {kRole,
     "--role",
     "",
     kValue,
     "NAME",
     "default",
     "PET_ROLE",
     true,
     kProgram,
     "Role of the workers; starts the prefix of their output."},
    {kStartMethod,
     "--start-method",
     "",
     kValue,
     "spawn|fork|forkserver",
     "spawn",
     "PET_START_METHOD",
     true,
     kProgram,
     "For Python functions only; programs are always executed."},
    {kMaxRestarts,
     "--max-restarts",
     "",
     kValue,
     "N",
     "0",
     "PET_MAX_RESTARTS",
     true,
     kStop,
     "Restarts after failures; this version supports 0."},
    {kMonitorInterval,
     "--monitor-interval",
     "",
     kValue,
     "SECONDS",
     "0.1",
     "PET_MONITOR_INTERVAL",
     true,
     kStop,
     "Upper bound for noticing an exit; exits are seen at once."},
    {kShutdownTimeout,
     "--shutdown-timeout",
     "",
     kValue,
     "SECONDS",
     "30",
     "PET_SHUTDOWN_TIMEOUT",
     true,
     kStop,
     "From the stop signal to SIGKILL."},
    {kSignalsToHandle,
     "--signals-to-handle",
     "",
     kValue,
     "SIG,...",
     "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     "PET_SIGNALS_TO_HANDLE",
     true,
     kStop,
     "Signals that stop the run in order; the workers get the same one."},
    {kExitCode,
     "--exit-code",
     "",
     kValue,
     "worker|torchrun",
     "worker",
     "",
     false,
     kStop,
     "worker: the failed worker's own code (128+n for signal n); torchrun: always 1."},
    {kEventLogHandler,
     "--event-log-handler",
     "",
     kValue,
     "null|console|file:PATH",
     "null",
     "PET_EVENT_LOG_HANDLER",
     true,
     kOther,
     "Also send the events of the run to stderr, or append them to PATH, as JSON lines."},
    {kResultFile,
     "--result-file",
     "",
     kValue,
     "PATH",
     "",
     "",
     false,
     kOther,
     "Write outcome, root cause and endings of the run to PATH, as JSON."},
    {kAccelerateEnv,
     "--accelerate-env",
     "",
     kValue,
     "auto|refuse|warn|allow",
     "auto",
     "",
     false,
     kOther,
     "ACCELERATE_* variables; auto: refused for our trainer, passed on to other programs."},
    {kDryRun,
     "--dry-run",
     "",
     kOptionalValue,
     "text|json",
     "",
     "",
     false,
     kOther,
     "Print what would be done, with the source of each value, and start nothing."},
    {kPrintCompletion,
     "--print-completion",
     "",
     kValue,
     "bash|zsh|tcsh",
     "",
     "",
     true,
     kOther,
     "Print a completion script for this shell."},
    {kHelp, "--help", "-h", kFlag, "", "", "", true, kOther, "Show this text."},
    {kVersion, "--version", "", kFlag, "", "", "", false, kOther, "Show the version."},
});

/// The tables as one, groups kept together in the order of their first rows.
std::vector<OptionSpec> AllRows() {
  std::vector<OptionSpec> rows(kTable.begin(), kTable.end());
  const std::span<const OptionSpec> output = OutputOptionRows();
  const auto others =
      std::ranges::find(rows, kOther, [](const OptionSpec& row) { return row.group; });
  rows.insert(others, output.begin(), output.end());
  for (const OptionSpec& row : WorkerOptionRows()) {
    const auto last = std::find_if(rows.rbegin(), rows.rend(), [&](const OptionSpec& other) {
      return other.group == row.group;
    });
    rows.insert(last == rows.rend() ? rows.end() : last.base(), row);
  }
  const std::span<const OptionSpec> accelerate = AccelerateOptionRows();
  rows.insert(rows.end(), accelerate.begin(), accelerate.end());
  return rows;
}

}  // namespace

std::span<const OptionSpec> OptionTable() {
  static const std::vector<OptionSpec> kAll = AllRows();
  return kAll;
}

bool OnlyPrints(Option option) {
  return option == kHelp || option == kVersion || option == kPrintCompletion;
}

const OptionSpec& SpecOf(Option option) {
  const std::span<const OptionSpec> table = OptionTable();
  const auto spec = std::ranges::find(table, option, &OptionSpec::option);
  LR_CHECK(spec != table.end(), "option {} has no row in the table", static_cast<int>(option));
  return *spec;
}

}  // namespace lr::launcher
