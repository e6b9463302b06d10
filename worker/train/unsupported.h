#pragma once
/// (pure) Settings that are specified but that this build cannot honour yet. Each is refused with
/// one sentence, from here and nowhere else; a line is deleted when its feature is built.

#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/train/train_config.h"

namespace lr::worker {

/// One sentence per setting of `config` that has no effect yet: flag, value, what to use instead.
std::vector<std::string> UnsupportedSettings(const TrainConfig& config);

/// kInvalidArgument with all of those sentences, one a line.
Status CheckSupported(const TrainConfig& config);

}  // namespace lr::worker
