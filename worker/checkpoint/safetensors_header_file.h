#pragma once
/// The header of a safetensors file on disk, checked; no tensor is read. For the reader of tensors
/// (safetensors.h), for checks of checkpoints and for programs without LibTorch. Any thread;
/// blocking. Errors name the file.

#include <filesystem>

#include "common/base/status.h"
#include "worker/checkpoint/positioned_file.h"
#include "worker/checkpoint/safetensors_header.h"

namespace lr::worker {

Result<SafetensorsHeader> ReadSafetensorsHeader(const PositionedFile& file,
                                                const SafetensorsLimits& limits = {});

/// Opens the file for that.
Result<SafetensorsHeader> ReadSafetensorsHeader(const std::filesystem::path& path);

}  // namespace lr::worker
