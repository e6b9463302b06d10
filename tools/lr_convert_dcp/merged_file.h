#pragma once
/// Writes and checks the merged file, one tensor in memory at a time. Called by conversion.h, main
/// thread, blocking. Errors name file, tensor and block; a failure leaves no file behind.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "common/base/status.h"
#include "tools/lr_convert_dcp/merge_plan.h"
#include "worker/checkpoint/dcp/dcp_directory.h"
#include "worker/checkpoint/durable_file.h"

namespace lr {

/// Told how many bytes were dealt with since the last call.
using ByteSink = std::function<void(uint64_t bytes)>;

/// Begins to show the progress of `total` bytes.
using StartProgress = std::function<ByteSink(std::string_view title, uint64_t total)>;

/// Tests fail or end the process here; null otherwise.
using FaultPoint = std::function<Status(std::string_view name)>;

/// Writes a sibling of `path`, flushes it, reads it back (header, names, shapes, checksum of every
/// byte) and only then gives it its name. Every block is compared with its item's checksum on the
/// way. Peak memory: the largest tensor, and 16 MiB.
Result<worker::WrittenFile> WriteMergedFile(worker::DcpDirectory& shards,
                                            const MergePlan& plan,
                                            const std::filesystem::path& path,
                                            const StartProgress& progress,
                                            const FaultPoint& fault);

/// The file holds every tensor of the plan with its type and shape, or names the one it is tied to
/// (the file that a save gathered holds tied tensors once).
Status CheckCovers(const std::filesystem::path& path, const MergePlan& plan);

}  // namespace lr
