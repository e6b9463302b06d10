#pragma once
/// From the arguments of `lr-train` to a configuration: defaults, then the configuration file, then
/// the policy's presets, then the command line (dataset_and_training_loop.md H.7). Reads files,
/// creates none. Main thread, before any device, network or process group is touched. Every failure
/// is the user's (kInvalidArgument): print it and exit with 2.

#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "worker/train/config_note.h"
#include "worker/train/train_config.h"

namespace lr::worker {

/// What the outside world adds to the arguments.
struct ParseContext {
  EnvironmentReader environment;  ///< HF_HOME, HF_HUB_CACHE, HOME
  std::tm now = {};               ///< local time, for the default output directory
  std::string resume_from;        ///< acts as --resume=true --config_path=<it>; empty: none
  std::string run_id;             ///< may continue in an output directory that it locked before
};

/// The real environment (with LR_RESUME_FROM and the run id) and clock.
ParseContext SystemParseContext();

struct ParsedConfig {
  TrainConfig config;
  std::string help;            ///< not empty: print it and exit 0; nothing else is set
  std::string checkpoint_dir;  ///< resume: the step directory to continue from; empty otherwise
  std::string weights_dir;     ///< folder with the policy's starting weights; empty: fresh weights
  bool output_dir_is_default = false;  ///< made from the clock: all ranks must take rank 0's
  std::vector<ConfigNote> notes;
  std::set<std::string>
      given_flags;  ///< dotted keys of the command line, for example "optimizer.lr"

  bool Given(const std::string& key) const { return given_flags.count(key) > 0; }
};

Result<ParsedConfig> ParseTrainCommandLine(const std::vector<std::string>& args,
                                           const ParseContext& context = SystemParseContext());

/// outputs/train/YYYY-MM-DD/HH-MM-SS_<job_name>
std::string DefaultOutputDir(const std::tm& now, const std::string& job_name);

}  // namespace lr::worker
