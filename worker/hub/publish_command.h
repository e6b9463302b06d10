#pragma once
/// (pure) The command that uploads a folder, the one that does it later, and how long it may take.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// `name` or `owner/name`, by the Hub's rules: letters, digits, `-_.`, at most 96 characters; no
/// leading or trailing dash or dot, no `--` or `..`.
Status CheckRepositoryName(const std::string& repo_id);

/// `hf upload` creates a missing repository itself; `is_private` unset leaves its visibility to the
/// account's default.
std::vector<std::string> UploadArguments(const std::string& hf,
                                         const std::string& repo_id,
                                         std::optional<bool> is_private,
                                         const std::string& folder);

/// What a person types to publish this folder when it did not work now.
std::string PublishLaterCommand(const std::string& checkpoint_dir,
                                const std::string& repo_id,
                                std::optional<bool> is_private);

/// Ten minutes, and the time that the bytes take at 0.5 MB/s: a command that hangs must end.
std::chrono::milliseconds UploadLimit(uint64_t bytes);

}  // namespace lr::worker
