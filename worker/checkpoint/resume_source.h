#pragma once
/// Decides whether this build can resume the checkpoint that a user, a launcher or `last` means
/// (checkpoints.md 3.12, launcher_and_service.md 5.4). Reading only; nothing is modified
/// or repaired.
///
/// Thread: step thread at start-up, on rank 0; the result is broadcast as a path.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/contract/checkpoint_layout.h"
#include "worker/checkpoint/checkpoint_check.h"
#include "worker/checkpoint/training_step.h"

namespace lr::worker {

/// A checkpoint that may be resumed.
struct ResumeSource {
  std::filesystem::path directory;  ///< the step directory, links resolved
  TrainingStep training;
  bool has_scheduler = false;
  bool has_scaler = false;
  bool has_model_file = false;        ///< model.safetensors
  bool has_model_shards = false;      ///< pytorch_model_fsdp_0
  bool has_optimizer_shards = false;  ///< optimizer_0; else the pair of a non-sharded run
  bool from_python = false;           ///< no manifest

  std::filesystem::path pretrained_model() const { return directory / kPretrainedFolder; }

  std::filesystem::path training_state() const { return directory / kTrainingStateFolder; }
};

/// Locates, verifies and guards. An explicit choice of a damaged directory is an error, never a
/// fallback. Refused with their reason: no training_state, sharded state of 0.6.x, declared shards
/// that are missing.
Result<ResumeSource> OpenResumeSource(const std::filesystem::path& path,
                                      VerifyLevel level = VerifyLevel::kSizes);

/// The newest complete checkpoint of an output folder; NotFound with every skipped directory and
/// its reason.
Result<ResumeSource> OpenNewestCheckpoint(const std::filesystem::path& output_dir);

}  // namespace lr::worker
