#pragma once
/// The arguments of lerobot-convert-dcp: LeRobot's flags in LeRobot's forms (checkpoints.md 3.13),
/// and ours. One list: the field table in command_line.cc. Reads a --config_path file; every
/// failure is the user's (kInvalidArgument): exit status 2.

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr {

struct CommandLine {
  std::string checkpoint_dir;
  bool delete_dcp = false;
  std::optional<std::string> push_to_hub;
  std::optional<bool> is_private;
  bool list = false;
  bool verify = false;
  bool json = false;
  std::string help;  ///< not empty: print it and exit 0; nothing else is set
};

/// Switches may stand alone: `--json` is `--json=true`.
Result<CommandLine> ParseCommandLine(std::vector<std::string> args);

}  // namespace lr
