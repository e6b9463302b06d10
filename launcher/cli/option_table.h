#pragma once
/// The options of lr-launch, declared once: spelling, PET variable, value, default and help.
/// Parser, --help, dry run and "did you mean" all read this table; nothing else lists options.
/// Options of torchrun and accelerate that this version does not serve are in refused_options.h.
/// Data only, never fails.

#include <span>
#include <string_view>

namespace lr::launcher {

enum class Option {
  kNnodes,
  kNprocPerNode,
  kNodeRank,
  kStandalone,
  kRdzvEndpoint,
  kRdzvBackend,
  kRdzvId,
  kRdzvConf,
  kRdzvTokenFile,
  kRequireAuth,
  kMasterAddr,
  kMasterPort,
  kLocalAddr,
  kModule,
  kNoPython,
  kRole,
  kMaxRestarts,
  kMaxNodeLosses,
  kAlwaysRestart,
  kHangTimeout,
  kHangFirstStep,
  kHangCheckpoint,
  kHangAction,
  kGrow,
  kSpares,
  kMonitorInterval,
  kStartMethod,
  kShutdownTimeout,
  kSignalsToHandle,
  kOnSignal,
  kGrace,
  kTimeLimit,
  kPreemptWatch,
  kCheckpointWhenLate,
  kCkptSignal,
  kCkptGlob,
  kCkptDoneFile,
  kExitCode,
  kLogDir,
  kRedirects,
  kTee,
  kLogLinePrefixTemplate,
  kLogPrefix,
  kLocalRanksFilter,
  kRanksFilter,
  kDuplicateStdoutFilters,
  kDuplicateStderrFilters,
  kLogMaxSize,
  kLogKeep,
  kTty,
  kAccelerateEnv,
  kRunPath,
  kPassLocalRank,
  kVirtualLocalRank,
  kOmpThreads,
  kNumaBinding,
  kNumaBindingCpu,
  kEventLogHandler,
  kResultFile,
  kPrintCompletion,
  // accelerate launch
  kDialect,
  kNumProcesses,
  kNumMachines,
  kMachineRank,
  kMainProcessIp,
  kMainProcessPort,
  kSameNetwork,
  kGpuIds,
  kMultiGpu,
  kCpu,
  kNumCpuThreads,
  kEnableCpuAffinity,
  kQuiet,
  kDebug,
  kDryRun,
  kHelp,
  kVersion,
};

enum class ValueKind {
  kFlag,
  kValue,
  kOptionalValue,  ///< --name or --name=value, never --name value; no value: the text is empty
};

struct OptionSpec {
  Option option;
  std::string_view name;        ///< canonical, with dashes; underscores are accepted everywhere
  std::string_view short_name;  ///< "-m" or empty
  ValueKind kind;
  std::string_view metavar;
  std::string_view fallback;  ///< the default, as text
  std::string_view variable;  ///< PET variable or empty
  bool of_torchrun;           ///< abbreviations are looked for among these first, as torchrun would
  std::string_view group;
  std::string_view help;
};

/// All options, those of one group together, in the order of the help text.
std::span<const OptionSpec> OptionTable();

/// The part of the table about the workers' output (output_options.cc).
std::span<const OptionSpec> OutputOptionRows();

/// The part of the table about how each worker is started (worker_options.cc).
std::span<const OptionSpec> WorkerOptionRows();

/// The part about requested checkpoints and pre-emption (preempt_options.cc).
std::span<const OptionSpec> PreemptOptionRows();

/// The part that comes from `accelerate launch` (accelerate_options.cc).
std::span<const OptionSpec> AccelerateOptionRows();

inline constexpr std::string_view kAccelerateGroup = "As accelerate launch says it";
inline constexpr std::string_view kPreemptGroup = "Checkpoints and pre-emption";
inline constexpr std::string_view kProgramGroup = "What is started";

/// --help, --version, --print-completion: they end everything else.
bool OnlyPrints(Option option);

const OptionSpec& SpecOf(Option option);

}  // namespace lr::launcher
