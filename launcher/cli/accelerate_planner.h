#pragma once
/// (pure) The launcher options of `accelerate launch` in terms of torchrun's (spec 1.3): counts are
/// totals there, addresses have other names. Part of PlanLaunch(); afterwards only --gpu-ids,
/// --cpu, --debug and --quiet of that tool are left to be looked at. Errors are usage errors that
/// print the arithmetic or both names of a conflict.

#include "common/base/status.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/launch_planner.h"

namespace lr::launcher {

/// `line` with torchrun's options filled in from accelerate's, and with accelerate's defaults in
/// that dialect.
Result<CommandLine> TranslateAccelerate(CommandLine line, const PlanningFacts& facts);

/// The static rendezvous of several machines needs to know which one this is: by the command line
/// or a scheduler.
Status CheckMachineRank(const CommandLine& line);

/// The environment as workers will see it with --gpu-ids and --cpu: what devices are counted by.
EnvironmentReader WithChosenDevices(const CommandLine& line, const PlanningFacts& facts);

}  // namespace lr::launcher
