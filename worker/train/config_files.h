#pragma once
/// Finds and reads the files that a configuration may come from. Reads only; main thread.

#include <string>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "common/io/json.h"

namespace lr::worker {

/// The step directory meant by a train_config.json, its pretrained_model folder, a step directory,
/// `last` (link or one-line file), a checkpoints folder or an output folder. kNotFound lists what
/// was looked for.
Result<std::string> FindCheckpointForResume(const std::string& path);

/// The map in a JSON or YAML file (by suffix), or in the train_config.json of a folder.
Result<Json> ReadConfigFile(const std::string& path);

/// The folder with config.json and weights that `--policy.path` means: a folder, a step directory,
/// or a repository in the local Hub cache (HF_HUB_CACHE, HF_HOME). A folder with shards alone is
/// refused with the command that converts it.
Result<std::string> FindPretrainedPolicy(const std::string& path,
                                         const EnvironmentReader& environment);

}  // namespace lr::worker
