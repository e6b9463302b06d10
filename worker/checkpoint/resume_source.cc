#include "worker/checkpoint/resume_source.h"

#include <algorithm>
#include <system_error>

#include "common/io/json.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/safetensors.h"

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
      LR_TRY(SafetensorsFile::Open(directory / path));
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

Status Verify(const fs::path& directory, const CheckpointListing& listing, VerifyLevel level) {
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

Result<TrainingStep> ReadTrainingStep(const fs::path& directory) {
  const std::string path = (directory / kTrainingStepPath).string();
  LR_ASSIGN(const Json json, ReadJsonFile(path));
  return ParseTrainingStep(json).WithContext("'{}'", path);
}

/// The degree of sharding that was recorded: by training_step.json, else by train_config.json; 1
/// when neither says anything.
int64_t RecordedShards(const fs::path& directory) {
  if (const Result<TrainingStep> training = ReadTrainingStep(directory);
      training.ok() && training->parallelism) {
    return training->parallelism->dp_shard;
  }
  const Result<Json> config = ReadJsonFile((directory / kTrainConfigPath).string());
  if (!config.ok() || !config->is_object() || !config->contains("parallelism")) {
    return 1;
  }
  const Json& parallelism = (*config)["parallelism"];
  if (!parallelism.is_object() || !parallelism.contains("dp_shard") ||
      !parallelism["dp_shard"].is_number_integer()) {
    return 1;
  }
  return parallelism["dp_shard"].get<int64_t>();
}

bool HasMetadata(const CheckpointListing& listing, const char* folder) {
  return listing.files.contains(std::string(folder) + "/.metadata");
}

bool HasWeights(const CheckpointListing& listing) {
  return listing.files.contains(kModelPath) || listing.files.contains(kAdapterModelPath) ||
         HasMetadata(listing, kModelShardsFolder);
}

bool HasPickledOptimizer(const CheckpointListing& listing) {
  const std::string prefix = std::string(kTrainingStateFolder) + "/";
  return std::any_of(listing.files.begin(), listing.files.end(), [&](const auto& file) {
    return file.first.starts_with(prefix + "optimizer") && file.first.ends_with(".bin");
  });
}

/// Layouts that cannot be resumed, refused by name (3.12). Runs before the check for completeness,
/// whose reason would be less helpful.
Status CheckLayout(const fs::path& directory, const CheckpointListing& listing) {
  if (!IsDirectory(directory / kTrainingStateFolder)) {
    return NotFound(
        "'{}' has no {} folder: it holds weights only; use them with --policy.path={}/{}",
        directory.string(),
        kTrainingStateFolder,
        directory.string(),
        kPretrainedFolder);
  }
  if (!HasWeights(listing) && RecordedShards(directory) != 1) {
    return NotFound(
        "checkpoint '{}' of a sharded run has neither {} nor the shards in {}; with the shards "
        "back in place it resumes, or becomes one file by lerobot-convert-dcp --checkpoint_dir={}",
        directory.string(),
        kModelPath,
        kModelShardsFolder,
        directory.string());
  }
  const bool gathered = RecordedShards(directory) != 1 &&
                        !HasMetadata(listing, kOptimizerShardsFolder) &&
                        listing.files.contains(kOptimizerStatePath);
  if (gathered || HasPickledOptimizer(listing)) {
    return FailedPrecondition(
        "checkpoint '{}' was written by a sharded run of LeRobot 0.6.x or earlier, whose optimizer "
        "layout cannot be resumed; "
        "its weights can still be the start of a new run: --policy.path={}/{}",
        directory.string(),
        directory.string(),
        kPretrainedFolder);
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

Status VerifyCheckpoint(const fs::path& step_directory, VerifyLevel level) {
  LR_ASSIGN(const CheckpointListing listing, ListCheckpointFiles(step_directory));
  return Verify(step_directory, listing, level);
}

Result<ResumeSource> OpenResumeSource(const fs::path& path, VerifyLevel level) {
  LR_ASSIGN(const fs::path directory, LocateCheckpoint(path));
  LR_ASSIGN(const CheckpointListing listing, ListCheckpointFiles(directory));
  LR_TRY(CheckLayout(directory, listing));
  LR_TRY(Verify(directory, listing, level));
  ResumeSource source;
  source.directory = directory;
  LR_ASSIGN(source.training, ReadTrainingStep(directory));
  source.has_model_file = listing.files.contains(kModelPath);
  source.has_model_shards = HasMetadata(listing, kModelShardsFolder);
  source.has_optimizer_shards = HasMetadata(listing, kOptimizerShardsFolder);
  source.has_scaler = listing.files.contains(kScalerStatePath);
  source.has_scheduler = listing.files.contains(kSchedulerStatePath);
  source.from_python = !listing.manifest;
  return source;
}

Result<ResumeSource> OpenNewestCheckpoint(const fs::path& output_dir) {
  LR_ASSIGN(std::vector<CheckpointCandidate> candidates, ListCheckpoints(output_dir));
  while (true) {
    const CheckpointChoice choice = ChooseCheckpoint(candidates);
    if (!choice.index) {
      return NotFound("'{}': {}", output_dir.string(), choice.reason);
    }
    CheckpointCandidate& candidate = candidates[*choice.index];
    Result<ResumeSource> source =
        OpenResumeSource(output_dir / kCheckpointsFolder / candidate.name);
    if (source.ok()) {
      return source;
    }
    candidate.verdict = {false, source.status().message()};  // skipped, with its reason
  }
}

}  // namespace lr::worker
