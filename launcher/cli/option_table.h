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
  kMasterAddr,
  kMasterPort,
  kLocalAddr,
  kModule,
  kNoPython,
  kRole,
  kMaxRestarts,
  kMaxNodeLosses,
  kAlwaysRestart,
  kGrow,
  kSpares,
  kMonitorInterval,
  kStartMethod,
  kShutdownTimeout,
  kSignalsToHandle,
  kExitCode,
  kLogDir,
  kAccelerateEnv,
  kDryRun,
  kHelp,
  kVersion,
};

enum class ValueKind { kFlag, kValue };

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

/// In the order of the help text.
std::span<const OptionSpec> OptionTable();

const OptionSpec& SpecOf(Option option);

}  // namespace lr::launcher
