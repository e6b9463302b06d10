#include "common/io/atomic_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "common/base/descriptor.h"

namespace lr {
namespace {

/// The code that fits the error number; the message "cannot <verb> '<path>': <reason>".
Status Failed(std::string_view verb, const std::string& path, int error) {
  StatusCode code = StatusCode::kUnknown;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      code = StatusCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = StatusCode::kPermissionDenied;
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      code = StatusCode::kResourceExhausted;
      break;
    case EISDIR:
      code = StatusCode::kFailedPrecondition;
      break;
    default:
      break;
  }
  return {code,
          fmt::format("cannot {} '{}': {}", verb, path, std::generic_category().message(error))};
}

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno;
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

Status WriteSibling(const std::string& sibling,
                    std::string_view bytes,
                    mode_t mode,
                    Durability durability) {
  Descriptor file(open(sibling.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) {
    return Failed("create", sibling, errno);
  }
  int error = WriteAll(file.get(), bytes);
  if (error == 0 && durability == Durability::kFlushed && fsync(file.get()) != 0) {
    error = errno;
  }
  const int closed = close(file.Release()) == 0 ? 0 : errno;
  error = error != 0 ? error : closed;
  return error == 0 ? Status() : Failed("write", sibling, error);
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    return Failed("open", path, errno);
  }

  struct stat info {};

  if (fstat(file.get(), &info) != 0) {
    return Failed("read", path, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    return Failed("read", path, EISDIR);
  }
  std::string bytes;
  std::string chunk(size_t{64} << 10, '\0');
  if (S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) > max_bytes) {
    return OutOfRange("'{}' has {} bytes (limit {})", path, info.st_size, max_bytes);
  }
  while (true) {
    const ssize_t count = read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return Failed("read", path, errno);
    }
    if (count == 0) {
      return bytes;
    }
    bytes.append(chunk.data(), static_cast<size_t>(count));
    if (bytes.size() > max_bytes) {
      return OutOfRange("'{}' has more than {} bytes", path, max_bytes);
    }
  }
}

Status WriteFileAtomic(const std::string& path,
                       std::string_view bytes,
                       mode_t mode,
                       Durability durability) {
  std::random_device random;
  const std::string sibling = fmt::format("{}.tmp-{}-{:08x}", path, getpid(), random());
  Status status = WriteSibling(sibling, bytes, mode, durability);
  if (status.ok() && rename(sibling.c_str(), path.c_str()) != 0) {
    status = Failed("replace", path, errno);
  }
  if (!status.ok()) {
    unlink(sibling.c_str());
    return status;
  }
  return durability == Durability::kFlushed ? FsyncDirectory(Parent(path)) : Status();
}

Status FsyncDirectory(const std::string& directory) {
  const Descriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) {
    return Failed("open", directory, errno);
  }
  return fsync(folder.get()) == 0 ? Status() : Failed("flush", directory, errno);
}

}  // namespace lr
