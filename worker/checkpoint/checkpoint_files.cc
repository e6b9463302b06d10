#include "worker/checkpoint/checkpoint_files.h"

#include <system_error>

#include "common/contract/checkpoint_scan.h"
#include "common/io/atomic_file.h"
#include "common/io/json.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kStateIndent = 4;

/// Writes files one after the other and keeps the manifest.
class DirectoryFiller {
 public:
  DirectoryFiller(const fs::path& directory, const FaultPoint& fault_point)
      : directory_(directory), fault_point_(fault_point) {}

  Status MakeFolder(const std::string& name) {
    LR_TRY(Reach(fault_point_, "create " + name));
    std::error_code error;
    fs::create_directory(directory_ / name, error);
    return error ? FileError("create", directory_ / name, error.value()) : Status();
  }

  Status Text(const std::string& path, std::string_view text) {
    LR_TRY(Reach(fault_point_, "write " + path));
    return Record(path, WriteDurableFile(directory_ / path, text));
  }

  Status StateJson(const std::string& path, const Json& json) {
    return Text(path, DumpPythonJson(json, kStateIndent));
  }

  Status Tensors(const std::string& path, const NamedTensors& tensors) {
    LR_TRY(Reach(fault_point_, "write " + path));
    return Record(path, WriteSafetensors(directory_ / path, tensors));
  }

  Status Model(const std::string& path, const TiedState& state) {
    LR_TRY(Reach(fault_point_, "write " + path));
    return Record(path, SaveModel(state, directory_ / path));
  }

  Status Flush(const std::string& folder) {
    LR_TRY(Reach(fault_point_, "flush " + folder));
    return FsyncDirectory((directory_ / folder).string());
  }

  std::vector<CheckpointFile> TakeFiles() { return std::move(files_); }

 private:
  Status Record(const std::string& path, const Result<WrittenFile>& written) {
    LR_TRY(written);
    files_.push_back({path, written->size, written->checksum});
    return {};
  }

  const fs::path& directory_;
  const FaultPoint& fault_point_;
  std::vector<CheckpointFile> files_;
};

Status WriteSideFile(DirectoryFiller& filler, const SideFile& file) {
  if (file.name.empty() || fs::path(file.name).filename() != file.name || file.name == "." ||
      file.name == "..") {
    return InvalidArgument("'{}' is no plain file name", file.name);
  }
  const std::string path = fmt::format("{}/{}", kPretrainedFolder, file.name);
  if (const auto* tensors = std::get_if<NamedTensors>(&file.content)) {
    return filler.Tensors(path, *tensors);
  }
  return filler.Text(path, std::get<std::string>(file.content));
}

Status WritePretrained(DirectoryFiller& filler, const CheckpointSnapshot& snapshot) {
  LR_TRY(filler.MakeFolder(kPretrainedFolder));
  LR_TRY(filler.Text(kPolicyConfigPath, snapshot.config_json));
  if (snapshot.model) {
    LR_TRY(filler.Model(kModelPath, *snapshot.model));
  }
  LR_TRY(filler.Text(kTrainConfigPath, snapshot.train_config_json));
  for (const SideFile& file : snapshot.side_files) {
    LR_TRY(WriteSideFile(filler, file));
  }
  return filler.Flush(kPretrainedFolder);
}

Status WriteTrainingState(DirectoryFiller& filler, const CheckpointSnapshot& snapshot) {
  LR_TRY(filler.MakeFolder(kTrainingStateFolder));
  LR_TRY(filler.StateJson(kTrainingStepPath, TrainingStepJson(snapshot.step)));
  LR_TRY(filler.Tensors(kRngStatePath, snapshot.rng));
  if (snapshot.scheduler) {
    LR_TRY(filler.StateJson(kSchedulerStatePath, *snapshot.scheduler));
  }
  if (snapshot.scaler) {
    LR_TRY(filler.StateJson(kScalerStatePath, *snapshot.scaler));
  }
  if (snapshot.optimizer) {
    LR_TRY(filler.Tensors(kOptimizerStatePath, snapshot.optimizer->state));
    LR_TRY(filler.StateJson(kOptimizerGroupsPath, snapshot.optimizer->groups));
  }
  return {};
}

}  // namespace

Result<std::vector<CheckpointFile>> WriteCheckpointFiles(const CheckpointSnapshot& snapshot,
                                                         const fs::path& directory,
                                                         const FaultPoint& fault_point) {
  DirectoryFiller filler(directory, fault_point);
  LR_TRY(WritePretrained(filler, snapshot));
  LR_TRY(WriteTrainingState(filler, snapshot));
  return filler.TakeFiles();
}

Status WritePretrainedFiles(const CheckpointSnapshot& snapshot, const fs::path& directory) {
  const FaultPoint none;
  DirectoryFiller filler(directory, none);
  return WritePretrained(filler, snapshot);
}

Result<std::vector<std::string>> WriteShards(const std::vector<ShardedFolder>& shards,
                                             const fs::path& directory,
                                             const FaultPoint& fault_point) {
  std::error_code error;
  if (!shards.empty() && !fs::is_directory(directory, error)) {
    return FailedPrecondition(
        "'{}', made by the main rank, is not visible here: --output_dir must be on a file system "
        "that all hosts of the run share",
        directory.string());
  }
  std::vector<std::string> reports;
  for (const ShardedFolder& folder : shards) {
    LR_TRY(Reach(fault_point, "write shard of " + folder.path));
    fs::create_directories(directory / folder.path, error);
    if (error) {
      return FileError("create", directory / folder.path, error.value());
    }
    LR_ASSIGN(const DcpShardFile shard, folder.save.WriteShard(directory / folder.path));
    reports.push_back(folder.save.Report(shard));
  }
  return reports;
}

Result<uint64_t> SealCheckpoint(CheckpointManifest manifest,
                                const std::vector<ShardedFolder>& shards,
                                const std::vector<std::vector<std::string>>& reports,
                                const fs::path& directory,
                                const FaultPoint& fault_point) {
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string& folder = shards[i].path;
    LR_TRY(Reach(fault_point, "write metadata of " + folder));
    LR_ASSIGN(
        std::vector<CheckpointFile> files,
        shards[i].save.WriteMetadata(
            directory / folder, reports[i], fmt::format("{}-{}", manifest.run_id, manifest.step)));
    for (CheckpointFile& file : files) {
      manifest.files.push_back(
          {fmt::format("{}/{}", folder, file.path), file.size, std::move(file.checksum)});
    }
  }
  manifest.checksum_algorithm = kChecksumAlgorithm;
  DirectoryFiller filler(directory, fault_point);
  LR_TRY(filler.Text(kManifestPath, FormatManifest(manifest)));
  if (!shards.empty()) {
    LR_TRY(filler.Flush(kPretrainedFolder));  // the shard folders' names
  }
  LR_TRY(filler.Flush(kTrainingStateFolder));
  LR_TRY(filler.Flush("."));
  uint64_t bytes = 0;
  for (const CheckpointFile& file : manifest.files) {
    bytes += file.size;
  }
  return bytes;
}

}  // namespace lr::worker
