#pragma once
/// Finds and reads the files that a configuration may come from. Reads only; main thread.

#include <string>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "common/io/json.h"

namespace lr::worker {

/// The step directory meant by a train_config.json, its pretrained_model folder, a step directory,
/// `last` (link or one-line file, also in the middle of a path), a checkpoints folder or an output
/// folder. A link `last` is followed now, since it moves. kNotFound lists what was looked for, and
/// the checkpoints that are there instead.
Result<std::string> FindCheckpointForResume(const std::string& path);

/// The file that `--config_path` means: a .json, .yaml or .yml file, or a folder of a checkpoint.
Result<std::string> FindConfigFile(const std::string& path);

/// True for a file that a run wrote, by its name: unknown keys come from another version.
bool IsCheckpointConfig(const std::string& path);

/// The map in a JSON or YAML file, by suffix.
Result<Json> ReadConfigFile(const std::string& path);

/// LeRobot's older spelling of sample weighting (`use_rabc`, `rabc_kappa`, …) in its present place.
void MigrateLegacyKeys(Json& train_config);

struct PretrainedFolder {
  std::string folder;  ///< with config.json and weights
  bool is_repository;  ///< found in the local Hub cache
};

/// What `--policy.path` means: a folder, a checkpoint, or a repository in the local Hub cache
/// (HF_HUB_CACHE, HF_HOME; `revision` empty: main). A folder with shards alone is refused with the
/// command that converts it. No network.
Result<PretrainedFolder> FindPretrainedPolicy(const std::string& path,
                                              const std::string& revision,
                                              const EnvironmentReader& environment);

}  // namespace lr::worker
