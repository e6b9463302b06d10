#pragma once
/// (pure) What can never work, found before devices, network or files are touched
/// (dataset_and_training_loop.md H.8, sharded_training.md 0.3). Messages name flag, value, limit.

#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/train/train_config.h"

namespace lr::worker {

/// The first setting that cannot work. `given` holds the dotted keys that a person stated.
Status CheckTrainConfig(const TrainConfig& config, const std::set<std::string>& given);

/// The documented rule that sharded-only formats need a sharded run; again once -1 is resolved.
Status CheckCheckpointFormat(CheckpointFormat format, bool sharded);

/// Settings that work but do not do what one may think: one line each.
std::vector<std::string> TrainConfigWarnings(const TrainConfig& config);

}  // namespace lr::worker
