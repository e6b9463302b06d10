/// The search itself, pure over RootSurroundings; System() asks this process.
#include "worker/data/dataset_root.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/text.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// "user/name" -> "datasets--user--name", as the cache names its folders.
std::string CacheFolder(const std::string& repo_id) {
  return "datasets--" + Join(Split(repo_id, '/'), "--");
}

/// The value of a variable that is set and not empty, else `fallback`.
std::string VariableOr(const RootSurroundings& surroundings,
                       const std::string& name,
                       const std::string& fallback) {
  const std::optional<std::string> value = surroundings.variable(name);
  return value && !value->empty() ? *value : fallback;
}

fs::path LerobotHome(const RootSurroundings& surroundings) {
  const std::string home = VariableOr(surroundings, "HOME", "/");
  const std::string hf_home = VariableOr(surroundings, "HF_HOME", home + "/.cache/huggingface");
  return VariableOr(surroundings, "HF_LEROBOT_HOME", hf_home + "/lerobot");
}

/// A repository name becomes part of a path: it may not lead out of the folder.
Status CheckRepoId(const std::string& repo_id) {
  for (const std::string& part : Split(repo_id, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return InvalidArgument("--dataset.repo_id='{}' is no name like user/dataset", repo_id);
    }
  }
  return {};
}

/// The snapshot to use: the one named like the revision first, else the newest that holds a
/// dataset.
std::optional<fs::path> ChooseSnapshot(const fs::path& snapshots,
                                       const std::optional<std::string>& revision,
                                       const RootSurroundings& surroundings) {
  if (revision && surroundings.is_folder(snapshots / *revision / "meta")) {
    return snapshots / *revision;
  }
  for (const fs::path& snapshot : surroundings.subfolders(snapshots)) {
    if (surroundings.is_folder(snapshot / "meta")) {
      return snapshot;
    }
  }
  return std::nullopt;
}

Status NotHere(const std::string& repo_id,
               const std::string& revision,
               const std::string& root,
               const std::string& direct,
               const fs::path& snapshots,
               const fs::path& target) {
  return NotFound(
      "dataset '{}' is not on this machine; looked in:\n"
      "  --dataset.root ({})\n"
      "  {}\n"
      "  {}/<commit>\n"
      "Nothing is downloaded here; fetch it with\n"
      "  hf download {} --repo-type=dataset --revision={} --local-dir={}",
      repo_id,
      root,
      direct,
      snapshots.string(),
      repo_id,
      revision,
      target.string());
}

}  // namespace

RootSurroundings RootSurroundings::System() {
  RootSurroundings system;
  system.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): read only
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  system.is_folder = [](const fs::path& folder) {
    std::error_code error;
    return fs::is_directory(folder, error);
  };
  system.subfolders = [](const fs::path& folder) {
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (entry.is_directory(error)) {
        found.emplace_back(entry.last_write_time(error), entry.path());
      }
    }
    std::sort(found.rbegin(), found.rend());
    std::vector<fs::path> paths;
    for (auto& [time, path] : found) {
      paths.push_back(std::move(path));
    }
    return paths;
  };
  return system;
}

Result<fs::path> FindDatasetRoot(const std::string& repo_id,
                                 const std::optional<std::string>& root,
                                 const std::optional<std::string>& revision,
                                 const RootSurroundings& surroundings) {
  if (surroundings.variable("LEROBOT_HOME")) {
    return FailedPrecondition(
        "the variable LEROBOT_HOME is set; old versions used that name. Rename it to "
        "HF_LEROBOT_HOME, or unset it when it "
        "is a leftover");
  }
  LR_TRY(CheckRepoId(repo_id));
  const fs::path lerobot = LerobotHome(surroundings);
  const fs::path direct = lerobot / repo_id;
  const fs::path snapshots = lerobot / "hub" / CacheFolder(repo_id) / "snapshots";
  const std::string wanted_revision = revision.value_or("v3.0");
  if (root) {
    return surroundings.is_folder(*root)
               ? Result<fs::path>(fs::path(*root))
               : NotHere(repo_id,
                         wanted_revision,
                         *root + ": no such folder",
                         direct.string() + ": not searched, a root is given",
                         snapshots,
                         *root);
  }
  // A folder made by an old mirror download is incomplete by design and is not used.
  const bool is_mirror = surroundings.is_folder(direct / ".cache/huggingface/download");
  if (surroundings.is_folder(direct / "meta") && !is_mirror) {
    return direct;
  }
  if (const auto snapshot = ChooseSnapshot(snapshots, revision, surroundings)) {
    return *snapshot;
  }
  const std::string note = is_mirror ? ": not used, an old mirror download made it" : "";
  return NotHere(repo_id, wanted_revision, "not given", direct.string() + note, snapshots, direct);
}

}  // namespace lr::worker
