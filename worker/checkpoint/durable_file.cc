#include "worker/checkpoint/durable_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>
#include <zlib.h>

#include <fmt/format.h>

namespace lr::worker {
namespace {

constexpr size_t kReadChunk = size_t{1} << 20;
constexpr size_t kMaximumWrite = size_t{1} << 30;

StatusCode CodeOf(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return StatusCode::kPermissionDenied;
    case ENOENT:
      return StatusCode::kNotFound;
    case ENOTDIR:
      return StatusCode::kFailedPrecondition;
    case EEXIST:
    case ENOTEMPTY:
      return StatusCode::kAlreadyExists;
    default:
      return StatusCode::kUnavailable;
  }
}

std::string Hex(uint32_t crc) {
  return fmt::format("{:08x}", crc);
}

}  // namespace

Status FileError(std::string_view verb, const std::filesystem::path& path, int error) {
  return {CodeOf(error),
          fmt::format(
              "cannot {} '{}': {}", verb, path.string(), std::generic_category().message(error))};
}

Result<DurableFile> DurableFile::Create(const std::filesystem::path& path) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".tmp-{}", getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    return FileError("create", temporary, errno);
  }
  return DurableFile(path, std::move(temporary), fd);
}

DurableFile::DurableFile(std::filesystem::path path, std::filesystem::path temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      crc_(other.crc_) {}

DurableFile::~DurableFile() {
  if (fd_ >= 0) {
    close(fd_);
    unlink(temporary_.c_str());
  }
}

Status DurableFile::Write(std::string_view bytes) {
  crc_ = UpdateCrc32(crc_, bytes);
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), std::min(bytes.size(), kMaximumWrite));
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return FileError("write", path_, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<WrittenFile> DurableFile::Flush() {
  if (fsync(fd_) != 0) {
    return FileError("flush", path_, errno);
  }
  return WrittenFile{size_, Hex(crc_)};
}

Result<WrittenFile> DurableFile::Finish() {
  LR_ASSIGN(WrittenFile written, Flush());
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return FileError("rename into place", path_, errno);
  }
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0) {
    return FileError("close", path_, errno);
  }
  return written;
}

Result<WrittenFile> WriteDurableFile(const std::filesystem::path& path, std::string_view bytes) {
  LR_ASSIGN(DurableFile file, DurableFile::Create(path));
  LR_TRY(file.Write(bytes));
  return file.Finish();
}

uint32_t UpdateCrc32(uint32_t crc, std::string_view bytes) {
  if (bytes.empty()) {
    return crc;  // zlib takes a null pointer as "start anew"
  }
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Result<std::string> ChecksumOfFile(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return FileError("open", path, errno);
  }
  std::vector<char> buffer(kReadChunk);
  uint32_t crc = 0;
  ssize_t got = 0;
  do {
    got = read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      crc = UpdateCrc32(crc, {buffer.data(), static_cast<size_t>(got)});
    }
  } while (got > 0 || (got < 0 && errno == EINTR));
  const int error = errno;
  close(fd);
  if (got < 0) {
    return FileError("read", path, error);
  }
  return Hex(crc);
}

}  // namespace lr::worker
