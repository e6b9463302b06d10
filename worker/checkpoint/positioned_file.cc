// pread, whole.
#include "worker/checkpoint/positioned_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "worker/checkpoint/durable_file.h"

namespace lr::worker {
namespace {

constexpr uint64_t kMaximumRead = uint64_t{1} << 30;

}  // namespace

Result<PositionedFile> PositionedFile::Open(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return FileError("open", path, errno);
  }
  PositionedFile file(path, fd, 0);

  struct stat info {};

  if (fstat(fd, &info) != 0) {
    return FileError("examine", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("'{}' is not a regular file", path.string());
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

PositionedFile& PositionedFile::operator=(PositionedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

PositionedFile::~PositionedFile() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

Status PositionedFile::Read(void* target, uint64_t bytes, uint64_t offset) const {
  auto* place = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t got =
        pread(fd_, place, std::min(bytes, kMaximumRead), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return FileError("read", path_, errno);
    }
    if (got == 0) {
      return DataLoss("'{}' ended {} bytes early while it was read", path_.string(), bytes);
    }
    place += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return {};
}

}  // namespace lr::worker
