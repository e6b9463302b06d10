#include "worker/train/config_files.h"

#include <algorithm>
#include <filesystem>

#include "common/base/text.h"
#include "common/contract/checkpoint_layout.h"
#include "common/io/atomic_file.h"
#include "common/io/yaml_node.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// `last` where the file system has no links: a file with the directory's name.
fs::path ThroughLast(const fs::path& path) {
  if (path.filename() == kLastName && IsFile(path)) {
    const Result<std::string> name = ReadFile(path.string(), 4096);
    if (name.ok()) {
      return path.parent_path() / std::string(Trim(*name));
    }
  }
  return path;
}

/// Every place in which a step directory may stand relative to what the user gave.
std::vector<fs::path> StepDirectoryCandidates(const fs::path& given) {
  std::vector<fs::path> candidates;
  if (given.filename() == "train_config.json") {
    candidates.push_back(given.parent_path().parent_path());
  }
  candidates.push_back(given.parent_path());             // .../pretrained_model
  candidates.push_back(ThroughLast(given));              // the step directory
  candidates.push_back(ThroughLast(given / kLastName));  // .../checkpoints
  candidates.push_back(ThroughLast(given / kCheckpointsFolder / kLastName));  // the output folder
  return candidates;
}

}  // namespace

Result<std::string> FindCheckpointForResume(const std::string& path) {
  std::vector<std::string> tried;
  fs::path given = fs::path(path).lexically_normal();
  if (given.filename().empty()) {  // a slash at the end
    given = given.parent_path();
  }
  for (const fs::path& step : StepDirectoryCandidates(given)) {
    if (IsFile(step / kTrainConfigPath)) {
      return step.string();
    }
    const std::string looked_for = (step / kTrainConfigPath).string();
    if (std::find(tried.begin(), tried.end(), looked_for) == tried.end()) {
      tried.push_back(looked_for);
    }
  }
  return NotFound(
      "no checkpoint at '{}': none of these files exists:\n  {}", path, Join(tried, "\n  "));
}

Result<Json> ReadConfigFile(const std::string& path) {
  const fs::path file(path);
  if (IsFolder(file)) {
    return ReadConfigFile((file / "train_config.json").string());
  }
  Json json;
  if (file.extension() == ".yaml" || file.extension() == ".yml") {
    LR_ASSIGN(json, ReadYamlFile(path));
  } else if (file.extension() == ".json") {
    LR_ASSIGN(json, ReadJsonFile(path));
  } else {
    return InvalidArgument("'{}': a configuration file ends in .json, .yaml or .yml", path);
  }
  if (!json.is_object()) {
    return InvalidArgument("'{}' holds no map of settings", path);
  }
  return json;
}

Result<std::string> FindPretrainedPolicy(const std::string& path,
                                         const EnvironmentReader& environment) {
  std::vector<std::string> tried = {path};
  fs::path folder = path;
  if (IsFolder(folder / kPretrainedFolder)) {
    folder /= kPretrainedFolder;
  }
  if (!IsFolder(folder) && std::count(path.begin(), path.end(), '/') == 1) {
    const std::string home = environment("HOME").value_or("");
    const std::string hf_home = environment("HF_HOME").value_or(home + "/.cache/huggingface");
    const fs::path hub = environment("HF_HUB_CACHE").value_or(hf_home + "/hub");
    std::string name = path;
    name.replace(name.find('/'), 1, "--");
    const fs::path repository = hub / ("models--" + name);
    tried.push_back(repository.string());
    const Result<std::string> commit = ReadFile((repository / "refs/main").string(), 4096);
    if (commit.ok()) {
      folder = repository / "snapshots" / std::string(Trim(*commit));
    }
  }
  if (!IsFolder(folder)) {
    return NotFound(
        "--policy.path={}: no such policy here (looked in: {})", path, Join(tried, ", "));
  }
  const bool shards = IsFolder(folder / "pytorch_model_fsdp_0");
  if (IsFile(folder / "model.safetensors") || IsFile(folder / "adapter_model.safetensors")) {
    return folder.string();
  }
  if (shards) {
    return FailedPrecondition(
        "--policy.path={}: a dcp checkpoint holds shards only; convert it first: "
        "lerobot-convert-dcp --checkpoint_dir={}",
        path,
        folder.string());
  }
  return NotFound("--policy.path={}: '{}' has no model.safetensors", path, folder.string());
}

}  // namespace lr::worker
