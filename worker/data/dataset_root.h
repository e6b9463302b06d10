#pragma once
/// Where a dataset lies on this machine (dataset_and_training_loop.md E.13). Decides from the
/// environment and from what exists; nothing is downloaded. A folder that is missing is an error
/// with every place searched and the command that fetches it.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace lr::worker {

/// The questions the search asks of its surroundings; tests answer them without files.
struct RootSurroundings {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::function<bool(const std::filesystem::path& folder)> is_folder;
  std::function<std::vector<std::filesystem::path>(const std::filesystem::path& folder)>
      subfolders;  ///< newest first

  /// The process environment and the file system.
  static RootSurroundings System();
};

/// `root` when given; else $HF_LEROBOT_HOME/<repo_id> unless it is an old mirror download; else the
/// newest snapshot in the cache, the requested `revision` first. HF_LEROBOT_HOME defaults to
/// $HF_HOME/lerobot, HF_HOME to
/// ~/.cache/huggingface. A set LEROBOT_HOME (the name of old versions) is an error.
Result<std::filesystem::path> FindDatasetRoot(const std::string& repo_id,
                                              const std::optional<std::string>& root,
                                              const std::optional<std::string>& revision,
                                              const RootSurroundings& surroundings);

}  // namespace lr::worker
