#include "worker/data/dataset_root.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/text.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

std::string WithDashes(std::string name) {
  for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at)) {
    name.replace(at, 1, "--");
  }
  return name;
}

/// The snapshot to use: the one named like the revision first, else the newest.
std::optional<fs::path> ChooseSnapshot(const fs::path& snapshots,
                                       const std::optional<std::string>& revision,
                                       const RootSurroundings& surroundings) {
  const std::vector<fs::path> all = surroundings.subfolders(snapshots);
  if (revision) {
    for (const fs::path& one : all) {
      if (one.filename() == *revision) {
        return one;
      }
    }
  }
  return all.empty() ? std::nullopt : std::optional(all.front());
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
    return FailedPrecondition("LEROBOT_HOME is set: the name of old versions; use HF_LEROBOT_HOME");
  }
  if (root) {
    if (!surroundings.is_folder(*root)) {
      return NotFound("--dataset.root={}: no such folder", *root);
    }
    return fs::path(*root);
  }
  const std::string home = surroundings.variable("HOME").value_or("/");
  const std::string hf_home =
      surroundings.variable("HF_HOME").value_or(home + "/.cache/huggingface");
  const fs::path lerobot = surroundings.variable("HF_LEROBOT_HOME").value_or(hf_home + "/lerobot");
  const fs::path direct = lerobot / repo_id;
  // A folder made by an old mirror download is incomplete by design and is not used.
  const bool mirrored = surroundings.is_folder(direct / ".cache/huggingface/download");
  if (surroundings.is_folder(direct / "meta") && !mirrored) {
    return direct;
  }
  const fs::path snapshots = lerobot / "hub" / ("datasets--" + WithDashes(repo_id)) / "snapshots";
  if (const auto snapshot = ChooseSnapshot(snapshots, revision, surroundings)) {
    return *snapshot;
  }
  return NotFound(
      "dataset '{}' is not on this machine; looked in:\n  --dataset.root (not given)\n  {}{}\n  "
      "{}\n"
      "fetch it with\n  hf download {} --repo-type=dataset --revision={} --local-dir={}",
      repo_id,
      direct.string(),
      mirrored ? " (an old mirror download, not used)" : "",
      snapshots.string(),
      repo_id,
      revision.value_or("v3.0"),
      direct.string());
}

}  // namespace lr::worker
