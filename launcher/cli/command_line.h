#pragma once
/// (pure) From argv and PET_* variables to options with the source of each value, and the program's
/// own arguments untouched (spec 1.1, L-3 to L-6). Called once by main(). Errors: kInvalidArgument
/// for usage (exit 2), kFailedPrecondition for options that configure accelerate's engine (exit
/// 78); the messages are complete and name the way out.

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "launcher/cli/dialect.h"
#include "launcher/cli/option_table.h"
#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

struct OptionValue {
  std::string text;  ///< flags: "1" or "0"; optional values: empty when left out
  ValueSource source = ValueSource::kDefault;
  std::string spelled;  ///< as the user wrote it, for messages: "--nproc_per_node=x",
                        ///< "PET_NPROC_PER_NODE=x"
};

struct CommandLine {
  Dialect dialect = Dialect::kTorchrun;
  std::map<Option, OptionValue> given;  ///< only what the command line or the environment said
  std::vector<std::string> program;     ///< PROGRAM and everything after it, byte for byte
  std::vector<std::string> notes;       ///< abbreviations that were completed

  bool has(Option option) const { return given.contains(option); }

  bool flag(Option option) const;

  /// The given text, else the table's default.
  std::string text(Option option) const;

  /// How to name the value in a message: as spelled, else the option's name.
  std::string spelled(Option option) const;
};

/// `arguments` without argv[0]. Options that only print end the parse at once, so that they work
/// beside mistakes.
/// `dialect` holds unless --dialect says otherwise.
Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                     const EnvironmentReader& environment,
                                     Dialect dialect = Dialect::kTorchrun);

}  // namespace lr::launcher
