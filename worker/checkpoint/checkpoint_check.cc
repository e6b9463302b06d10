// See the header.
#include "worker/checkpoint/checkpoint_check.h"

#include <system_error>

#include "common/contract/checkpoint_scan.h"
#include "common/io/json.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/safetensors_header_file.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

/// Replaces each component `last` that is a one-line text file by the directory that it names.
Result<fs::path> ResolveTextLast(const fs::path& path) {
  fs::path resolved;
  for (const fs::path& part : path) {
    std::error_code error;
    if (part == kLastName && fs::is_regular_file(resolved / part, error)) {
      LR_ASSIGN(const std::string target, ReadLast(resolved));
      resolved /= target;
    } else {
      resolved /= part;
    }
  }
  return resolved;
}

/// The step directory of an output folder or of its checkpoints folder.
Result<fs::path> ThroughLast(const fs::path& checkpoints) {
  LR_ASSIGN(const std::string target, ReadLast(checkpoints));
  return checkpoints / target;
}

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Structure of the files that a resume reads, without their data.
Status CheckParses(const fs::path& directory, const CheckpointListing& listing) {
  for (const auto& [path, size] : listing.files) {
    const bool ours = path.starts_with(std::string(kPretrainedFolder) + "/") ||
                      path.starts_with(std::string(kTrainingStateFolder) + "/");
    if (!ours) {
      continue;
    }
    if (path.ends_with(".json")) {
      LR_TRY(ReadJsonFile((directory / path).string()));
    } else if (path.ends_with(".safetensors")) {
      LR_TRY(ReadSafetensorsHeader(directory / path));
    }
  }
  return {};
}

Status CheckChecksums(const fs::path& directory, const CheckpointManifest& manifest) {
  if (manifest.checksum_algorithm != kChecksumAlgorithm) {
    return Unimplemented("the manifest's checksums are '{}', this build knows {}",
                         manifest.checksum_algorithm,
                         kChecksumAlgorithm);
  }
  for (const CheckpointFile& file : manifest.files) {
    LR_ASSIGN(const std::string checksum, ChecksumOfFile(directory / file.path));
    if (checksum != file.checksum) {
      return DataLoss("'{}' has checksum {}, the manifest says {}",
                      (directory / file.path).string(),
                      checksum,
                      file.checksum);
    }
  }
  return {};
}

}  // namespace

Result<fs::path> LocateCheckpoint(const fs::path& path) {
  LR_ASSIGN(fs::path place, ResolveTextLast(path.lexically_normal()));
  if (!place.has_filename()) {
    place = place.parent_path();  // a trailing slash
  }
  if (IsFile(place)) {
    place = place.parent_path();
  }
  if (IsDirectory(place / kCheckpointsFolder)) {
    place /= kCheckpointsFolder;
  }
  std::error_code error;
  if (!IsDirectory(place / kPretrainedFolder) &&
      fs::exists(fs::symlink_status(place / kLastName, error))) {
    LR_ASSIGN(place, ThroughLast(place));
  }
  const fs::path resolved = fs::canonical(place, error);
  if (error) {
    return NotFound("there is no checkpoint at '{}': {}", path.string(), error.message());
  }
  if (IsDirectory(resolved / kPretrainedFolder)) {
    return resolved;
  }
  if (resolved.filename() == kPretrainedFolder || IsFile(resolved / "train_config.json")) {
    return resolved.parent_path();
  }
  return NotFound(
      "'{}' is no checkpoint: expected a train_config.json, a {} folder, a step directory or an "
      "output folder",
      path.string(),
      kPretrainedFolder);
}

Status VerifyCheckpoint(const fs::path& directory,
                        const CheckpointListing& listing,
                        VerifyLevel level) {
  const CheckpointVerdict verdict = JudgeCheckpoint(listing);
  if (!verdict.complete) {
    return DataLoss("checkpoint '{}' is not complete: {}", directory.string(), verdict.reason);
  }
  LR_TRY(CheckParses(directory, listing)
             .WithContext("checkpoint '{}' is damaged", directory.string()));
  if (level == VerifyLevel::kFull && listing.manifest) {
    return CheckChecksums(directory, *listing.manifest)
        .WithContext("checkpoint '{}' is damaged", directory.string());
  }
  return {};
}

Status VerifyCheckpoint(const fs::path& step_directory, VerifyLevel level) {
  LR_ASSIGN(const CheckpointListing listing, ListCheckpointFiles(step_directory));
  return VerifyCheckpoint(step_directory, listing, level);
}

}  // namespace lr::worker
