#pragma once
/// A file that is read at given places: the reader of safetensors and of distributed checkpoints.
///
/// Positioned reads, not a mapping: a file that another process cuts short is then an error and not
/// a SIGBUS. Any thread; blocking. Errors name the path.

#include <cstdint>
#include <filesystem>

#include "common/base/status.h"

namespace lr::worker {

class PositionedFile {
 public:
  /// Regular files only.
  static Result<PositionedFile> Open(const std::filesystem::path& path);

  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;
  ~PositionedFile();

  const std::filesystem::path& path() const { return path_; }

  /// At the time of Open().
  uint64_t size() const { return size_; }

  /// Exactly `bytes`; kDataLoss when the file ends before.
  Status Read(void* target, uint64_t bytes, uint64_t offset) const;

 private:
  PositionedFile(std::filesystem::path path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace lr::worker
