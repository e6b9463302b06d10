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

  CheckpointManifest TakeManifest() { return std::move(manifest_); }

 private:
  Status Record(const std::string& path, const Result<WrittenFile>& written) {
    LR_TRY(written);
    manifest_.files.push_back({path, written->size, written->checksum});
    return {};
  }

  const fs::path& directory_;
  const FaultPoint& fault_point_;
  CheckpointManifest manifest_;
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
  LR_TRY(filler.Model(kModelPath, snapshot.model));
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
  if (snapshot.optimizer) {
    LR_TRY(filler.Tensors(kOptimizerStatePath, snapshot.optimizer->state));
    LR_TRY(filler.StateJson(kOptimizerGroupsPath, snapshot.optimizer->groups));
  }
  return {};
}

}  // namespace

Result<CheckpointManifest> WriteCheckpointFiles(const CheckpointSnapshot& snapshot,
                                                const fs::path& directory,
                                                const std::string& run_id,
                                                const FaultPoint& fault_point) {
  DirectoryFiller filler(directory, fault_point);
  LR_TRY(WritePretrained(filler, snapshot));
  LR_TRY(WriteTrainingState(filler, snapshot));
  CheckpointManifest manifest = filler.TakeManifest();
  manifest.step = snapshot.step.step;
  manifest.run_id = run_id;
  manifest.checksum_algorithm = kChecksumAlgorithm;
  LR_TRY(filler.Text(kManifestPath, FormatManifest(manifest)));
  LR_TRY(filler.Flush(kTrainingStateFolder));
  LR_TRY(filler.Flush("."));
  return manifest;
}

}  // namespace lr::worker
