#include "worker/train/config_files.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "common/base/text.h"
#include "common/contract/checkpoint_layout.h"
#include "common/io/atomic_file.h"
#include "common/io/yaml_node.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

constexpr char kTrainConfigName[] = "train_config.json";

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// What `last` names: a link, or a one-line file where the file system has no links; empty when it
/// is an ordinary directory, missing, or names more than one directory.
fs::path TargetOfLast(const fs::path& last) {
  std::error_code error;
  if (fs::is_symlink(last, error)) {
    return fs::read_symlink(last, error);
  }
  const Result<std::string> line =
      IsFile(last) ? ReadFile(last.string(), 4096) : Result<std::string>(std::string());
  const fs::path name = line.ok() ? fs::path(std::string(Trim(*line))) : fs::path();
  return name.has_parent_path() ? fs::path() : name;
}

/// The path with every component `last` replaced by the directory that it names.
fs::path ThroughLast(const fs::path& path) {
  fs::path resolved;
  for (const fs::path& part : path) {
    const fs::path target = part == kLastName ? TargetOfLast(resolved / part) : fs::path();
    resolved /= target.empty() ? part : target;
  }
  return resolved;
}

/// Without the slash at the end, "." and "..".
fs::path Tidy(const std::string& path) {
  const fs::path tidy = fs::path(path).lexically_normal();
  return tidy.filename().empty() && tidy.has_parent_path() ? tidy.parent_path() : tidy;
}

/// Every place in which a step directory may stand relative to what the user gave.
std::vector<fs::path> StepDirectoryCandidates(const fs::path& given) {
  std::vector<fs::path> candidates;
  if (given.filename() == kTrainConfigName) {
    candidates.push_back(given.parent_path().parent_path());
  } else {
    if (given.filename() == kPretrainedFolder) {
      candidates.push_back(given.parent_path());
    }
    candidates.push_back(given);                                   // the step directory
    candidates.push_back(given / kLastName);                       // …/checkpoints
    candidates.push_back(given / kCheckpointsFolder / kLastName);  // the output folder
  }
  for (fs::path& candidate : candidates) {
    candidate = ThroughLast(candidate);
  }
  return candidates;
}

/// The checkpoints near `given`, for the message when it is none itself.
std::vector<std::string> CheckpointsNear(const fs::path& given) {
  std::vector<std::string> found;
  for (fs::path folder = given; found.empty() && !folder.empty(); folder = folder.parent_path()) {
    for (const fs::path& checkpoints : {folder, folder / kCheckpointsFolder}) {
      std::error_code error;
      for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error)) {
        if (ParseStepDirectoryName(entry.path().filename().string()) &&
            IsFile(entry.path() / kTrainConfigPath)) {
          found.push_back(entry.path().string());
        }
      }
    }
    if (folder == folder.parent_path() || folder.filename() == kCheckpointsFolder) {
      break;
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<std::string> FindCheckpointForResume(const std::string& path) {
  const fs::path given = Tidy(path);
  std::vector<std::string> tried;
  for (const fs::path& step : StepDirectoryCandidates(given)) {
    if (IsFile(step / kTrainConfigPath)) {
      return step.string();
    }
    tried.push_back((step / kTrainConfigPath).string());
  }
  const std::vector<std::string> near = CheckpointsNear(given);
  return NotFound("no checkpoint at '{}': none of these files exists:\n  {}\n{}{}",
                  path,
                  Join(tried, "\n  "),
                  near.empty() ? "no checkpoint was found near it" : "checkpoints found near it:",
                  near.empty() ? "" : "\n  " + Join(near, "\n  "));
}

Result<std::string> FindConfigFile(const std::string& path) {
  if (!IsFolder(Tidy(path))) {
    return ThroughLast(Tidy(path)).string();
  }
  if (IsFile(Tidy(path) / kTrainConfigName)) {  // a policy folder outside of a checkpoint
    return (Tidy(path) / kTrainConfigName).string();
  }
  LR_ASSIGN(const std::string step, FindCheckpointForResume(path));
  return step + "/" + kTrainConfigPath;
}

bool IsCheckpointConfig(const std::string& path) {
  return fs::path(path).filename() == kTrainConfigName;
}

Result<Json> ReadConfigFile(const std::string& path) {
  const std::string suffix = fs::path(path).extension().string();
  Json json;
  if (suffix == ".yaml" || suffix == ".yml") {
    LR_ASSIGN(json, ReadYamlFile(path));
  } else if (suffix == ".json") {
    LR_ASSIGN(json, ReadJsonFile(path));
  } else {
    return InvalidArgument("'{}': a configuration file ends in .json, .yaml or .yml", path);
  }
  if (!json.is_object()) {
    return InvalidArgument("'{}' holds no map of settings", path);
  }
  return json;
}

void MigrateLegacyKeys(Json& train_config) {
  const std::pair<const char*, const char*> renamed[] = {
      {"rabc_progress_path", "progress_path"},
      {"rabc_head_mode", "head_mode"},
      {"rabc_kappa", "kappa"},
      {"rabc_epsilon", "epsilon"},
  };
  const bool used = train_config.contains("use_rabc") && train_config["use_rabc"] == true;
  Json weighting = {{"type", "rabc"}};
  for (const auto& [old_key, key] : renamed) {
    if (train_config.contains(old_key)) {
      weighting[key] = train_config[old_key];
      train_config.erase(old_key);
    }
  }
  train_config.erase("use_rabc");
  if (used) {
    train_config["sample_weighting"] = std::move(weighting);
  }
}

namespace {

/// The snapshot of a repository in the local Hub cache; every place tried is added to `tried`.
fs::path CachedRepository(const std::string& name,
                          const std::string& revision,
                          const EnvironmentReader& environment,
                          std::vector<std::string>& tried) {
  const std::string home = environment("HOME").value_or("");
  const std::string hf_home = environment("HF_HOME").value_or(home + "/.cache/huggingface");
  const fs::path hub = environment("HF_HUB_CACHE").value_or(hf_home + "/hub");
  std::string flat = name;
  flat.replace(flat.find('/'), 1, "--");
  const fs::path repository = hub / ("models--" + flat);
  const fs::path reference = repository / "refs" / (revision.empty() ? "main" : revision);
  const Result<std::string> commit = ReadFile(reference.string(), 4096);
  // A revision may also be the commit itself.
  const fs::path snapshot =
      repository / "snapshots" / (commit.ok() ? std::string(Trim(*commit)) : revision);
  tried.push_back(commit.ok() || !revision.empty() ? snapshot.string() : reference.string());
  return commit.ok() || !revision.empty() ? snapshot : fs::path();
}

/// `org/name` and a revision: nothing that leaves the cache folder.
bool LooksLikeRepository(const std::string& path, const std::string& revision) {
  return std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' &&
         path.back() != '/' && path.front() != '.' &&
         (path + "/" + revision).find("..") == std::string::npos;
}

Status CheckWeights(const std::string& path, const fs::path& folder) {
  if (IsFile(folder / "model.safetensors") || IsFile(folder / "adapter_model.safetensors")) {
    return {};
  }
  if (IsFolder(folder / fs::path(kModelShardsFolder).filename())) {
    return InvalidArgument(
        "--policy.path={}: a dcp checkpoint holds shards only; convert it first: "
        "lerobot-convert-dcp --checkpoint_dir={}",
        path,
        folder.string());
  }
  return NotFound("--policy.path={}: '{}' has no model.safetensors", path, folder.string());
}

}  // namespace

Result<PretrainedFolder> FindPretrainedPolicy(const std::string& path,
                                              const std::string& revision,
                                              const EnvironmentReader& environment) {
  const fs::path given = Tidy(path);
  std::vector<std::string> tried;
  for (const fs::path& folder : {given,
                                 given / kPretrainedFolder,
                                 given / kLastName / kPretrainedFolder,
                                 given / kCheckpointsFolder / kLastName / kPretrainedFolder}) {
    const fs::path resolved = ThroughLast(folder);
    if (IsFile(resolved / "config.json")) {
      LR_TRY(CheckWeights(path, resolved));
      return PretrainedFolder{resolved.string(), false};
    }
    tried.push_back((resolved / "config.json").string());
  }
  if (!IsFolder(given) && LooksLikeRepository(path, revision)) {
    const fs::path snapshot = CachedRepository(path, revision, environment, tried);
    if (IsFile(snapshot / "config.json")) {
      LR_TRY(CheckWeights(path, snapshot));
      return PretrainedFolder{snapshot.string(), true};
    }
  }
  return NotFound(
      "--policy.path={}: no policy on this machine; looked for\n  {}\nA repository is fetched "
      "with: "
      "hf download {}",
      path,
      Join(tried, "\n  "),
      path);
}

}  // namespace lr::worker
