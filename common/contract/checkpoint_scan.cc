#include "common/contract/checkpoint_scan.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/io/atomic_file.h"
#include "common/io/json.h"

namespace lr {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaximumFiles = 100'000;
constexpr size_t kMaximumLastBytes = 4096;
constexpr char kPinnedName[] = ".pinned";
constexpr char kManifestFormat[] = "lr-checkpoint-1";

/// A clean relative path: no empty, "." or ".." part, no backslash, no NUL.
bool IsCleanRelativePath(std::string_view path) {
  if (path.empty() || path.find_first_of(std::string_view("\\\0", 2)) != std::string_view::npos) {
    return false;
  }
  const std::vector<std::string> parts = Split(path, '/');
  return std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part.empty() || part == "." || part == "..";
  });
}

Result<CheckpointFile> ParseManifestFile(const Json& json) {
  if (!json.is_object() || !json.contains("path") || !json["path"].is_string() ||
      !json.contains("size") || !json["size"].is_number_unsigned()) {
    return InvalidArgument("an entry of `files` lacks a text `path` or a non-negative `size`");
  }
  CheckpointFile file{json["path"].get<std::string>(), json["size"].get<uint64_t>(), ""};
  if (!IsCleanRelativePath(file.path)) {
    return InvalidArgument("path '{}' leaves the checkpoint", file.path);
  }
  if (json.contains("checksum") && json["checksum"].is_string()) {
    file.checksum = json["checksum"].get<std::string>();
  }
  return file;
}

Result<CheckpointListing> ReadListing(const fs::path& directory) {
  CheckpointListing listing;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(directory, error);
       !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    std::error_code entry_error;
    if (!it->is_regular_file(entry_error)) {
      continue;
    }
    const uint64_t size = it->file_size(entry_error);
    if (entry_error) {
      continue;  // it vanished or cannot be read: then it is missing
    }
    listing.files.emplace(it->path().lexically_relative(directory).generic_string(), size);
    if (listing.files.size() > kMaximumFiles) {
      return OutOfRange("'{}' holds more than {} files", directory.string(), kMaximumFiles);
    }
  }
  if (error) {
    return NotFound("cannot list '{}': {}", directory.string(), error.message());
  }
  return listing;
}

CheckpointCandidate Judge(const fs::path& directory, int64_t step, const std::string& last) {
  CheckpointCandidate candidate;
  candidate.name = directory.filename().string();
  candidate.step = step;
  candidate.is_last = candidate.name == last;
  const Result<CheckpointListing> listing = ListCheckpointFiles(directory);
  if (!listing.ok()) {
    candidate.verdict = {false, listing.status().message()};
    return candidate;
  }
  candidate.pinned = listing->files.contains(kPinnedName);
  candidate.run_id = listing->manifest ? listing->manifest->run_id : "";
  candidate.verdict = JudgeCheckpoint(*listing);
  return candidate;
}

}  // namespace

std::string FormatManifest(const CheckpointManifest& manifest) {
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back({{"path", file.path}, {"size", file.size}, {"checksum", file.checksum}});
  }
  const Json json = {{"format", kManifestFormat},
                     {"step", manifest.step},
                     {"run_id", manifest.run_id},
                     {"checksum_algorithm", manifest.checksum_algorithm},
                     {"files", std::move(files)}};
  return DumpPythonJson(json, 4);
}

Result<CheckpointManifest> ParseManifest(std::string_view text) {
  LR_ASSIGN(const Json json, ParseJson(text));
  if (!json.is_object() || !json.contains("format") || json["format"] != kManifestFormat) {
    return InvalidArgument("not a manifest of format '{}'", kManifestFormat);
  }
  if (!json.contains("step") || !json["step"].is_number_integer() || !json.contains("files") ||
      !json["files"].is_array()) {
    return InvalidArgument("`step` (integer) or `files` (array) is missing");
  }
  CheckpointManifest manifest;
  manifest.step = json["step"].get<int64_t>();
  if (json.contains("run_id") && json["run_id"].is_string()) {
    manifest.run_id = json["run_id"].get<std::string>();
  }
  if (json.contains("checksum_algorithm") && json["checksum_algorithm"].is_string()) {
    manifest.checksum_algorithm = json["checksum_algorithm"].get<std::string>();
  }
  for (const Json& entry : json["files"]) {
    LR_ASSIGN(CheckpointFile file, ParseManifestFile(entry));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

Result<CheckpointListing> ListCheckpointFiles(const fs::path& step_directory) {
  LR_ASSIGN(CheckpointListing listing, ReadListing(step_directory));
  if (!listing.files.contains(kManifestPath)) {
    return listing;
  }
  const std::string path = (step_directory / kManifestPath).string();
  const Result<std::string> text = ReadFile(path);
  Result<CheckpointManifest> manifest =
      text.ok() ? ParseManifest(*text) : Result<CheckpointManifest>(text.status());
  if (manifest.ok()) {
    listing.manifest = std::move(manifest).value();
  } else {
    listing.manifest_error =
        fmt::format("{} cannot be read: {}", kManifestPath, manifest.status().message());
  }
  return listing;
}

Result<std::string> ReadLast(const fs::path& checkpoints_directory) {
  const fs::path last = checkpoints_directory / kLastName;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(last, error);
  std::string target;
  if (fs::is_symlink(status)) {
    target = fs::read_symlink(last, error).string();
  } else if (fs::is_regular_file(status)) {
    LR_ASSIGN(const std::string text, ReadFile(last.string(), kMaximumLastBytes));
    target = std::string(Trim(text));
  } else if (fs::exists(status)) {
    return FailedPrecondition("'{}' is neither a link nor a text file", last.string());
  } else {
    return NotFound("there is no '{}'", last.string());
  }
  if (!ParseStepDirectoryName(target)) {
    return InvalidArgument(
        "'{}' names '{}', which is not a step directory beside it", last.string(), target);
  }
  return target;
}

Result<std::vector<CheckpointCandidate>> ListCheckpoints(const fs::path& output_dir) {
  const fs::path checkpoints = output_dir / kCheckpointsFolder;
  std::vector<CheckpointCandidate> candidates;
  std::error_code error;
  if (!fs::exists(checkpoints, error)) {
    return candidates;
  }
  const Result<std::string> last = ReadLast(checkpoints);
  for (auto it = fs::directory_iterator(checkpoints, error);
       !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::optional<int64_t> step = ParseStepDirectoryName(it->path().filename().string());
    std::error_code entry_error;
    if (step && it->is_directory(entry_error)) {
      candidates.push_back(Judge(it->path(), *step, last.ok() ? *last : ""));
    }
  }
  if (error) {
    return Unavailable("cannot list '{}': {}", checkpoints.string(), error.message());
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.step != b.step ? a.step > b.step : a.name > b.name;
  });
  return candidates;
}

}  // namespace lr
