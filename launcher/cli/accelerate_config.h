#pragma once
/// The file that `accelerate launch` would read without being asked (L-6): looked for only to say
/// that it is ignored.

#include <optional>
#include <string>

#include "common/contract/worker_environment.h"

namespace lr::launcher {

/// Its path when it exists at its usual place: $HF_HOME, else $XDG_CACHE_HOME/huggingface, else
/// ~/.cache/huggingface.
std::optional<std::string> FindAccelerateConfig(const EnvironmentReader& environment);

}  // namespace lr::launcher
