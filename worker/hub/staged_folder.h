#pragma once
/// A temporary folder that holds exactly what is published of a policy's folder: links to its
/// *.safetensors, *.json, *.yaml and *.md, never what lies in its subfolders (shards), and a model
/// card where it has none. Blocking; removed with the object.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

class StagedFolder {
 public:
  /// kNotFound when the folder has no weights or no config.json.
  static Result<StagedFolder> Create(const std::filesystem::path& pretrained);

  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  const std::filesystem::path& path() const { return path_; }

  uint64_t bytes() const { return bytes_; }

  /// Worth a warning each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  explicit StagedFolder(std::filesystem::path path) : path_(std::move(path)) {}

  Status Fill(const std::filesystem::path& pretrained);

  std::filesystem::path path_;
  uint64_t bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace lr::worker
