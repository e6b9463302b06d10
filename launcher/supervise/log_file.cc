#include "launcher/supervise/log_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lr::launcher {
namespace {

Status FileError(const std::string& what, const std::string& path) {
  return ResourceExhausted("cannot {} {}: {}",
                           what,
                           path,
                           std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): per thread
}

}  // namespace

Status LogFile::Open() {
  file_.Reset(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));

  struct stat info {};

  if (file_.get() < 0 || fstat(file_.get(), &info) != 0) {
    return FileError("open", path_);
  }
  size_ = static_cast<uint64_t>(info.st_size);
  return {};
}

Status LogFile::Append(std::string_view bytes) {
  while (limits_.max_bytes > 0 && size_ + bytes.size() > limits_.max_bytes) {
    const uint64_t room = limits_.max_bytes - std::min(size_, limits_.max_bytes);
    const size_t newline = bytes.substr(0, room).rfind('\n');
    size_t head = newline == std::string_view::npos ? 0 : newline + 1;
    if (head == 0 && size_ == 0) {
      head = room;
    }
    LR_TRY(Write(bytes.substr(0, head)));
    bytes.remove_prefix(head);
    LR_TRY(Rotate());
  }
  return Write(bytes);
}

Status LogFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return FileError("write", path_);
    }
    size_ += static_cast<uint64_t>(written);
    ends_in_line_ = bytes[static_cast<size_t>(written) - 1] != '\n';
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

/// <path>.1 becomes <path>.2 and so on; the oldest is overwritten.
Status LogFile::Rotate() {
  for (int number = limits_.kept; number >= 1; --number) {
    const std::string from = number == 1 ? path_ : fmt::format("{}.{}", path_, number - 1);
    if (std::rename(from.c_str(), fmt::format("{}.{}", path_, number).c_str()) != 0 &&
        errno != ENOENT) {
      return FileError("rotate", path_);
    }
  }
  return Open();
}

}  // namespace lr::launcher
