// See the header.
#include "tools/lr_convert_dcp/conversion.h"

#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

#include "common/contract/checkpoint_scan.h"
#include "common/io/atomic_file.h"
#include "common/io/json.h"
#include "tools/lr_convert_dcp/manifest_change.h"

namespace lr {
namespace {

namespace fs = std::filesystem;
using worker::WrittenFile;

constexpr char kAsideMark[] = ".del-";

/// Held by the one conversion of a folder. File systems without locks have none.
class FolderLock {
 public:
  static Result<FolderLock> Acquire(const fs::path& folder) {
    const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
      return worker::FileError("open", folder, errno);
    }
    FolderLock lock(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      return Aborted("another conversion of '{}' is running", folder.string());
    }
    return lock;
  }

  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  FolderLock& operator=(FolderLock&&) = delete;

  ~FolderLock() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  int fd_;
};

/// Siblings of the output and shard folders set aside, of runs that were killed.
std::vector<std::string> RemoveOld(const CheckpointPlace& place) {
  const std::string shards = place.shards().filename().string() + kAsideMark;
  std::vector<fs::path> old;
  std::error_code error;
  for (auto it = fs::directory_iterator(place.pretrained, error);
       !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(shards) || name.starts_with("model.safetensors.tmp-") ||
        name.starts_with("adapter_model.safetensors.tmp-")) {
      old.push_back(it->path());
    }
  }
  std::vector<std::string> notes;
  for (const fs::path& path : old) {
    std::error_code failed;
    fs::remove_all(path, failed);
    notes.push_back(fmt::format("{} '{}' of an interrupted conversion",
                                failed ? "could not remove" : "removed",
                                path.string()));
  }
  return notes;
}

/// The manifest of the checkpoint, if it is one of ours.
Result<std::optional<CheckpointManifest>> ReadManifest(const CheckpointPlace& place) {
  if (!place.step) {
    return std::optional<CheckpointManifest>();
  }
  LR_ASSIGN(CheckpointListing listing, ListCheckpointFiles(*place.step));
  if (!listing.manifest_error.empty()) {
    return DataLoss("checkpoint '{}': {}", place.step->string(), listing.manifest_error);
  }
  if (listing.manifest && listing.manifest->checksum_algorithm != worker::kChecksumAlgorithm) {
    return Unimplemented("checkpoint '{}': the manifest's checksums are '{}', this build knows {}",
                         place.step->string(),
                         listing.manifest->checksum_algorithm,
                         worker::kChecksumAlgorithm);
  }
  return std::move(listing.manifest);
}

AdapterBias BiasOf(const CheckpointPlace& place) {
  const Result<Json> config = ReadJsonFile((place.pretrained / "adapter_config.json").string());
  if (!config.ok() || !config->is_object() || !config->contains("bias")) {
    return AdapterBias::kNone;
  }
  const Json& bias = (*config)["bias"];
  return bias == "all"         ? AdapterBias::kAll
         : bias == "lora_only" ? AdapterBias::kLoraOnly
                               : AdapterBias::kNone;
}

Status CheckSpace(const fs::path& folder, uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < bytes) {
    return ResourceExhausted("'{}' needs {} bytes, the disk has {} free",
                             folder.string(),
                             bytes,
                             static_cast<uint64_t>(space.available));
  }
  return {};
}

class Converter {
 public:
  Converter(const CheckpointPlace& place, const ConversionOptions& options)
      : place_(place), options_(options) {}

  Result<Conversion> Run() {
    LR_ASSIGN(const FolderLock lock, FolderLock::Acquire(place_.pretrained));
    LR_TRY(Plan());
    Note(RemoveOld(place_));
    if (!IsThere()) {
      LR_TRY(CheckSpace(place_.pretrained, plan_.file_bytes()));
      LR_ASSIGN(
          const WrittenFile written,
          WriteMergedFile(*shards_, plan_, result_.output, options_.progress, options_.fault));
      result_.bytes = written.size;
      result_.checksum = written.checksum;
    }
    LR_TRY(UpdateManifest());
    if (options_.delete_shards) {
      LR_TRY(DeleteShards());
    }
    return std::move(result_);
  }

 private:
  void Note(std::vector<std::string> notes) {
    for (std::string& note : notes) {
      result_.notes.push_back(std::move(note));
    }
  }

  Status Plan() {
    LR_ASSIGN(manifest_, ReadManifest(place_));
    LR_ASSIGN(shards_,
              worker::DcpDirectory::Open(place_.shards(), worker::DcpChecksums::kRefuseMismatch));
    LR_ASSIGN(plan_,
              PlanMerge(shards_->metadata(), BiasOf(place_))
                  .WithContext("'{}'", place_.shards().string()));
    result_.output = place_.pretrained / fs::path(RelativeOutput()).filename();
    result_.tensors = plan_.header.entries.size();
    if (!plan_.values.empty() && options_.delete_shards) {
      return FailedPrecondition(
          "'{}' also holds {} values that are no tensors (first: '{}'), which a safetensors file "
          "cannot hold; convert without --delete_dcp",
          place_.shards().string(),
          plan_.values.size(),
          plan_.values[0]);
    }
    if (!plan_.values.empty()) {
      Note({fmt::format("{} values that are no tensors stay in the shards only (first: '{}')",
                        plan_.values.size(),
                        plan_.values[0])});
    }
    if (!plan_.left_out.empty()) {
      Note({fmt::format("{} tensors of the frozen base are not part of the adapter",
                        plan_.left_out.size())});
    }
    std::error_code error;
    if (plan_.is_adapter && !fs::exists(place_.pretrained / "adapter_config.json", error)) {
      Note(
          {fmt::format("'{}' has no adapter_config.json, without which nobody can load the adapter",
                       place_.pretrained.string())});
    }
    return {};
  }

  const char* RelativeOutput() const { return plan_.is_adapter ? kAdapterModelPath : kModelPath; }

  /// The manifest vouches for the file that is there.
  bool IsThere() {
    if (!manifest_) {
      return false;
    }
    for (const CheckpointFile& file : manifest_->files) {
      if (file.path != RelativeOutput() || !CheckCovers(result_.output, plan_).ok()) {
        continue;
      }
      const Result<std::string> checksum = worker::ChecksumOfFile(result_.output);
      if (checksum.ok() && *checksum == file.checksum) {
        result_.was_there = true;
        result_.bytes = file.size;
        result_.checksum = file.checksum;
        return true;
      }
    }
    return false;
  }

  Status UpdateManifest() {
    LR_TRY(options_.fault("manifest"));
    if (!manifest_) {
      return {};
    }
    const CheckpointManifest changed =
        WithMergedFile(*manifest_,
                       {RelativeOutput(), result_.bytes, result_.checksum},
                       options_.delete_shards ? ShardsAre::kDeleted : ShardsAre::kKept);
    return WriteFileAtomic((*place_.step / kManifestPath).string(), FormatManifest(changed));
  }

  Status DeleteShards() {
    LR_TRY(options_.fault("set shards aside"));
    fs::path aside = place_.shards();
    aside += fmt::format("{}{}", kAsideMark, getpid());
    if (rename(place_.shards().c_str(), aside.c_str()) != 0) {
      return worker::FileError("set aside", place_.shards(), errno);
    }
    LR_TRY(FsyncDirectory(place_.pretrained.string()));
    LR_TRY(options_.fault("remove shards"));
    std::error_code error;
    fs::remove_all(aside, error);
    if (error) {
      return worker::FileError("remove", aside, error.value());
    }
    result_.deleted_shards = true;
    return {};
  }

  const CheckpointPlace& place_;
  const ConversionOptions& options_;
  std::optional<CheckpointManifest> manifest_;
  std::optional<worker::DcpDirectory> shards_;
  MergePlan plan_;
  Conversion result_;
};

}  // namespace

Result<Conversion> Convert(const CheckpointPlace& place, const ConversionOptions& options) {
  return Converter(place, options).Run();
}

Result<std::vector<std::string>> RemoveLeftovers(const CheckpointPlace& place) {
  LR_ASSIGN(const FolderLock lock, FolderLock::Acquire(place.pretrained));
  return RemoveOld(place);
}

}  // namespace lr
