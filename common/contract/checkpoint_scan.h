#pragma once
/// The file-system side of checkpoint_layout.h: reads manifests and listings so that the pure
/// functions can judge.
///
/// Used by the launcher when it chooses what to resume and by the worker's reader and writer. Any
/// thread; blocking (directory listing, small files). Nothing is modified.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/contract/checkpoint_layout.h"

namespace lr {

/// The JSON text of training_state/manifest.json, and back. Paths that leave the directory are an
/// error.
std::string FormatManifest(const CheckpointManifest& manifest);
Result<CheckpointManifest> ParseManifest(std::string_view text);

/// Every regular file below one step directory with its size, and its manifest. At most 100,000
/// files.
Result<CheckpointListing> ListCheckpointFiles(const std::filesystem::path& step_directory);

/// What `<checkpoints>/last` names: the target of the link, or the text of a one-line file (file
/// systems without links); always one plain directory name. NotFound when there is no `last`.
Result<std::string> ReadLast(const std::filesystem::path& checkpoints_directory);

/// All step directories of `<output_dir>/checkpoints`, judged, highest step first. An output folder
/// without checkpoints gives an empty list.
Result<std::vector<CheckpointCandidate>> ListCheckpoints(const std::filesystem::path& output_dir);

}  // namespace lr
