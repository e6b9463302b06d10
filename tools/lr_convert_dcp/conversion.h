#pragma once
/// Shards -> one safetensors file (checkpoints.md 3.13, 7). Main thread, blocking; one process.
///
/// Order of things, so that an end at any point leaves a checkpoint that can be used:
///   plan        all structure is checked; nothing is written
///   write       a sibling of the output, flushed, read back, renamed
///   manifest    (checkpoints of ours) rewritten in one rename: with the output, without the shards
///   delete      the shard folder is renamed aside, then removed
/// What an earlier run left behind (siblings, folders aside) is removed first. One conversion of a
/// folder at a time: an flock on the folder itself, which leaves no file behind.

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tools/lr_convert_dcp/checkpoint_place.h"
#include "tools/lr_convert_dcp/merged_file.h"

namespace lr {

struct ConversionOptions {
  bool delete_shards = false;
  StartProgress progress;
  FaultPoint fault = [](std::string_view) { return Status(); };
};

struct Conversion {
  std::filesystem::path output;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  std::string checksum;    ///< crc32
  bool was_there = false;  ///< the output was there and right: nothing was written
  bool deleted_shards = false;
  std::vector<std::string> notes;  ///< for people, one line each
};

/// Errors: kNotFound, kInvalidArgument, kDataLoss (shards are missing or damaged: nothing is
/// deleted), kPermissionDenied, kResourceExhausted, kAborted (another conversion runs).
Result<Conversion> Convert(const CheckpointPlace& place, const ConversionOptions& options);

/// For a folder without shards: removes what an interrupted --delete_dcp left.
Result<std::vector<std::string>> RemoveLeftovers(const CheckpointPlace& place);

}  // namespace lr
