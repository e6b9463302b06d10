// See the header.
#include "worker/hub/staged_folder.h"

#include <cerrno>
#include <cstdlib>
#include <set>
#include <system_error>
#include <utility>

#include "common/contract/checkpoint_layout.h"
#include "common/io/atomic_file.h"
#include "common/io/json.h"
#include "worker/hub/model_card.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kCard[] = "README.md";

bool IsPublished(const fs::path& file) {
  static const std::set<std::string> published = {".safetensors", ".json", ".yaml", ".md"};
  return published.contains(file.extension().string());
}

}  // namespace

Result<StagedFolder> StagedFolder::Create(const fs::path& pretrained) {
  std::error_code error;
  std::string pattern = (fs::temp_directory_path(error) / "lr-publish-XXXXXX").string();
  if (error || mkdtemp(pattern.data()) == nullptr) {
    return Unavailable("cannot create a folder '{}': {}",
                       pattern,
                       error ? error.message() : std::generic_category().message(errno));
  }
  StagedFolder folder(pattern);
  LR_TRY(folder.Fill(pretrained));
  return folder;
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : path_(std::exchange(other.path_, fs::path())),
      bytes_(other.bytes_),
      notes_(std::move(other.notes_)) {}

StagedFolder::~StagedFolder() {
  if (!path_.empty()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
}

Status StagedFolder::Fill(const fs::path& pretrained) {
  std::error_code error;
  const fs::path source = fs::canonical(pretrained, error);
  std::set<std::string> names;
  for (auto it = fs::directory_iterator(source, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code entry;
    if (!it->is_regular_file(entry) || !IsPublished(it->path())) {
      continue;
    }
    names.insert(it->path().filename().string());
    bytes_ += it->file_size(entry);
    fs::create_symlink(it->path(), path_ / it->path().filename(), error);
  }
  if (error) {
    return Unavailable("cannot stage '{}': {}", pretrained.string(), error.message());
  }
  const bool has_weights = names.contains(fs::path(kModelPath).filename()) ||
                           names.contains(fs::path(kAdapterModelPath).filename());
  if (!has_weights || !names.contains(fs::path(kPolicyConfigPath).filename())) {
    return NotFound("'{}' has no {}: nothing that can be published",
                    pretrained.string(),
                    has_weights ? "config.json" : "model.safetensors or adapter_model.safetensors");
  }
  if (names.contains(kCard)) {
    return {};
  }
  LR_ASSIGN(const Json policy, ReadJsonFile((source / "config.json").string()));
  const Result<Json> train = ReadJsonFile((source / "train_config.json").string());
  if (!train.ok()) {
    notes_.push_back(fmt::format("the model card names no data set: {}", train.status().message()));
  }
  return WriteFileAtomic((path_ / kCard).string(), ModelCard(policy, train.ok() ? *train : Json()));
}

}  // namespace lr::worker
