#pragma once
/// (pure) --print-completion: scripts for bash, zsh and tcsh, made from the option table. They
/// complete option names, the words that an option takes, and files for everything else; after
/// PROGRAM nothing but files. No extra package is needed to use them:
///
///   source <(lr-launch --print-completion bash)

#include <string>

#include "common/base/status.h"

namespace lr::launcher {

/// kInvalidArgument for another shell; `spelled` names the option.
Result<std::string> CompletionScript(const std::string& shell, const std::string& spelled);

}  // namespace lr::launcher
