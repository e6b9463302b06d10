#pragma once
/// (pure) Names inside an output folder's `checkpoints/`, and the decisions about them: which
/// directories are checkpoints, which are complete, which one to resume from, which ones to remove
/// (checkpoints.md 3.1, 7; launcher_and_service.md 5.3, 5.4).
///
/// Used by the worker's writer and reader and by the launcher's resume choice. No file is touched
/// here: callers pass listings (checkpoint_scan.h makes them) and receive a decision with its
/// reason.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lr {

inline constexpr char kCheckpointsFolder[] = "checkpoints";
inline constexpr char kLastName[] = "last";
inline constexpr char kPretrainedFolder[] = "pretrained_model";
inline constexpr char kTrainingStateFolder[] = "training_state";

/// Paths relative to a step directory.
inline constexpr char kPolicyConfigPath[] = "pretrained_model/config.json";
inline constexpr char kTrainConfigPath[] = "pretrained_model/train_config.json";
inline constexpr char kModelPath[] = "pretrained_model/model.safetensors";
inline constexpr char kAdapterModelPath[] = "pretrained_model/adapter_model.safetensors";
inline constexpr char kAdapterConfigPath[] = "pretrained_model/adapter_config.json";
inline constexpr char kModelShardsFolder[] = "pretrained_model/pytorch_model_fsdp_0";
inline constexpr char kTrainingStepPath[] = "training_state/training_step.json";
inline constexpr char kRngStatePath[] = "training_state/rng_state.safetensors";
inline constexpr char kSchedulerStatePath[] = "training_state/scheduler_state.json";
inline constexpr char kScalerStatePath[] = "training_state/scaler_state.json";
inline constexpr char kOptimizerStatePath[] = "training_state/optimizer_state.safetensors";
inline constexpr char kOptimizerGroupsPath[] = "training_state/optimizer_param_groups.json";
inline constexpr char kOptimizerShardsFolder[] = "training_state/optimizer_0";
inline constexpr char kManifestPath[] = "training_state/manifest.json";

/// `step` in decimal, zero-padded to max(6, digits of `total_steps`): (5000, 100000) -> "005000".
std::string StepDirectoryName(int64_t step, int64_t total_steps);

/// The step of a directory name of any width; nullopt for everything that is not decimal digits
/// alone.
std::optional<int64_t> ParseStepDirectoryName(std::string_view name);

/// "<step name>.tmp-<pid>-<random>": where a checkpoint is written before it is published.
std::string TemporaryName(std::string_view step_name, int64_t pid, std::string_view random);

/// The same with ".old-": an unfinished directory that stood in the way of a save and was renamed
/// aside.
std::string AsideName(std::string_view step_name, int64_t pid, std::string_view random);

/// The same with ".del-": a checkpoint that is being removed.
std::string DoomedName(std::string_view step_name, int64_t pid, std::string_view random);

/// Names that writers of ours give to what is not, or no longer, a checkpoint.
bool IsTemporaryName(std::string_view name);
bool IsAsideName(std::string_view name);
bool IsDoomedName(std::string_view name);

/// One file of a checkpoint, with its path relative to the step directory.
struct CheckpointFile {
  std::string path;
  uint64_t size = 0;
  std::string checksum;  ///< lower-case hex, algorithm in the manifest; empty: not known
};

/// training_state/manifest.json, written last: which files the checkpoint consists of. It does not
/// list itself.
struct CheckpointManifest {
  int64_t step = 0;
  std::string run_id;
  std::string checksum_algorithm;  ///< "crc32"
  std::vector<CheckpointFile> files;
};

/// What is on disk in one step directory.
struct CheckpointListing {
  std::map<std::string, uint64_t> files;  ///< relative path -> size
  std::optional<CheckpointManifest> manifest;
  std::string manifest_error;  ///< why a manifest that is there could not be read
};

struct CheckpointVerdict {
  bool complete = false;
  std::string reason;  ///< in words, both ways
};

/// With a manifest: every listed file is there with its size. Without one (written by Python): the
/// files that a resume needs are there and not empty.
CheckpointVerdict JudgeCheckpoint(const CheckpointListing& listing);

/// The files (or alternatives of files) that a checkpoint without a manifest must have; each inner
/// list is satisfied by one of its entries, an entry by all of its paths.
using FileAlternatives = std::vector<std::vector<std::string>>;
const std::vector<FileAlternatives>& RequiredCheckpointFiles();

/// One step directory of an output folder, judged.
struct CheckpointCandidate {
  std::string name;  ///< directory name
  int64_t step = 0;
  bool is_last = false;  ///< `last` points to it
  bool pinned = false;   ///< holds a file `.pinned`: an operator wants it kept
  std::string run_id;    ///< from the manifest; empty without one
  CheckpointVerdict verdict;
};

struct CheckpointChoice {
  std::optional<size_t> index;  ///< into the candidates; nullopt: nothing to resume from
  std::string reason;
};

/// The newest complete one: the target of `last` (the most recently published, also after a run
/// went back to an earlier step), else the highest complete step.
CheckpointChoice ChooseCheckpoint(const std::vector<CheckpointCandidate>& candidates);

/// Names of the complete checkpoints that retention removes so that `keep` remain; 0 keeps all.
/// Never removes the newest two, the target of `last` or a pinned one; incomplete directories are
/// not its business.
std::vector<std::string> CheckpointsToRemove(const std::vector<CheckpointCandidate>& candidates,
                                             int64_t keep);

}  // namespace lr
