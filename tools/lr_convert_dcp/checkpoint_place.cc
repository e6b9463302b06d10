// See the header.
#include "tools/lr_convert_dcp/checkpoint_place.h"

#include <system_error>

#include "common/contract/checkpoint_layout.h"
#include "common/io/json.h"
#include "worker/checkpoint/checkpoint_check.h"

namespace lr {
namespace {

namespace fs = std::filesystem;

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string NameOf(const char* path) {
  return fs::path(path).filename().string();
}

/// The folder with the weights, when `folder` is one or is the shard folder in one.
std::optional<fs::path> ModelFolder(const fs::path& folder) {
  const bool is_shards = folder.filename() == NameOf(kModelShardsFolder);
  if (is_shards && IsDirectory(folder)) {
    return folder.parent_path();
  }
  const bool is_model =
      IsDirectory(folder / NameOf(kModelShardsFolder)) ||
      (IsFile(folder / "config.json") && !IsDirectory(folder / kPretrainedFolder));
  return is_model ? std::optional(folder) : std::nullopt;
}

CheckpointPlace PlaceOf(const fs::path& pretrained) {
  CheckpointPlace place{pretrained, std::nullopt};
  const fs::path parent = pretrained.parent_path();
  if (pretrained.filename() == kPretrainedFolder && IsDirectory(parent / kTrainingStateFolder)) {
    place.step = parent;
  }
  return place;
}

}  // namespace

fs::path CheckpointPlace::shards() const {
  return pretrained / NameOf(kModelShardsFolder);
}

fs::path CheckpointPlace::optimizer() const {
  return step ? *step / kOptimizerShardsFolder : fs::path();
}

Result<CheckpointPlace> LocatePlace(const fs::path& given) {
  std::error_code error;
  fs::path path = fs::canonical(given, error);
  if (!error) {
    if (const std::optional<fs::path> folder = ModelFolder(path)) {
      return PlaceOf(*folder);
    }
  }
  LR_ASSIGN(const fs::path step, worker::LocateCheckpoint(given));
  if (!IsDirectory(step / kPretrainedFolder)) {
    return NotFound("'{}' has no {} folder", step.string(), kPretrainedFolder);
  }
  return PlaceOf(step / kPretrainedFolder);
}

PlaceFacts LookAt(const CheckpointPlace& place) {
  PlaceFacts facts;
  facts.has_shards = IsDirectory(place.shards());
  for (const char* path : {kModelPath, kAdapterModelPath}) {
    if (facts.weights.empty() && IsFile(place.pretrained / NameOf(path))) {
      facts.weights = NameOf(path);
    }
  }
  const Result<Json> config = ReadJsonFile((place.pretrained / "train_config.json").string());
  if (config.ok() && config->is_object() && config->contains("checkpoint_format") &&
      (*config)["checkpoint_format"].is_string()) {
    facts.checkpoint_format = (*config)["checkpoint_format"].get<std::string>();
  }
  return facts;
}

WorkDecision DecideWork(const PlaceFacts& facts, const std::string& shards, bool publishes) {
  if (facts.has_shards) {
    return {Work::kConvert, fmt::format("the shards are in '{}'", shards)};
  }
  const std::string missing = fmt::format("there is no shard directory '{}'", shards);
  if (facts.weights.empty()) {
    return {Work::kRefuse,
            fmt::format("{}, and no weights either; shards are written by sharded runs with "
                        "--checkpoint_format=dcp or safetensors_dcp",
                        missing)};
  }
  const bool had_shards =
      facts.checkpoint_format == "dcp" || facts.checkpoint_format == "safetensors_dcp";
  if (had_shards) {
    return {Work::kNothing, fmt::format("already converted: {} is there", facts.weights)};
  }
  if (publishes) {
    return {Work::kNothing, fmt::format("{} is there, nothing to convert", facts.weights)};
  }
  return {Work::kRefuse,
          fmt::format("{}: this checkpoint{} holds {} and needs no conversion; shards are written "
                      "by sharded runs with --checkpoint_format=dcp or safetensors_dcp",
                      missing,
                      facts.checkpoint_format.empty()
                          ? std::string()
                          : fmt::format(" (checkpoint_format={})", facts.checkpoint_format),
                      facts.weights)};
}

}  // namespace lr
