#pragma once
/// What PROGRAM is and how one worker of it is started (L-9 to L-11): native program, script with
/// its interpreter, Python module or any executable. Reads at most the first 4 KiB of PROGRAM;
/// called once by main(), before the rendezvous, so that a missing or unusable program is one error
/// and not N.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

struct EntryPointRequest {
  std::vector<std::string> program;  ///< PROGRAM and its arguments
  bool module = false;
  bool no_python = false;
  bool run_path = false;  ///< a Python script for certain; wins over no_python
};

/// kNotFound, kPermissionDenied or kInvalidArgument, each naming the path and the way out.
Result<ProgramPlan> ResolveEntryPoint(const EntryPointRequest& request,
                                      const EnvironmentReader& environment);

enum class ProgramKind {
  kElf,           ///< a compiled program
  kNativeScript,  ///< a documented name of ours: the marker names the program beside it
  kPythonScript,  ///< `#!` naming a python
  kOtherScript,   ///< another `#!`
  kUnmarked,      ///< anything else: Python text
};

/// (pure) By the first bytes of the file.
ProgramKind ClassifyProgram(std::string_view head);

}  // namespace lr::launcher
