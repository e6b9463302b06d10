#include "worker/checkpoint/resume_source.h"

#include <algorithm>
#include <system_error>

#include "common/contract/checkpoint_scan.h"
#include "common/io/json.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

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
  std::error_code error;
  if (!fs::is_directory(directory / kTrainingStateFolder, error)) {
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

Result<ResumeSource> OpenResumeSource(const fs::path& path, VerifyLevel level) {
  LR_ASSIGN(const fs::path directory, LocateCheckpoint(path));
  LR_ASSIGN(const CheckpointListing listing, ListCheckpointFiles(directory));
  LR_TRY(CheckLayout(directory, listing));
  LR_TRY(VerifyCheckpoint(directory, listing, level));
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
