#pragma once
/// Finds the step directory that a path means and checks a checkpoint as a whole, without LibTorch:
/// before a resume (resume_source.h), before and after a conversion (tools/lr_convert_dcp). Reading
/// only; any thread; blocking.

#include <filesystem>

#include "common/base/status.h"
#include "common/contract/checkpoint_layout.h"

namespace lr::worker {

enum class VerifyLevel {
  kSizes,  ///< the manifest's sizes; without a manifest: required files, JSON and safetensors
           ///< headers parse
  kFull    ///< and the checksums
};

/// The step directory meant by a train_config.json, its pretrained_model folder, a step directory,
/// `last` (link or one-line text file), a checkpoints folder or an output folder. Paths through
/// `last` work in both forms.
Result<std::filesystem::path> LocateCheckpoint(const std::filesystem::path& path);

/// Complete and undamaged, or the reason why not.
Status VerifyCheckpoint(const std::filesystem::path& step_directory,
                        const CheckpointListing& listing,
                        VerifyLevel level);

/// With the listing of what is there now.
Status VerifyCheckpoint(const std::filesystem::path& step_directory,
                        VerifyLevel level = VerifyLevel::kSizes);

}  // namespace lr::worker
