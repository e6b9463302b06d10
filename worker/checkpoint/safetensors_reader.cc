#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <ATen/Functions.h>

#include "worker/checkpoint/dtype_map.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

constexpr size_t kMaximumRead = size_t{1} << 30;

Status ReadAt(
    const std::filesystem::path& path, int fd, char* target, uint64_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const ssize_t got =
        pread(fd, target, std::min<uint64_t>(bytes, kMaximumRead), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return FileError("read", path, errno);
    }
    if (got == 0) {
      return DataLoss("'{}' ended {} bytes early while it was read", path.string(), bytes);
    }
    target += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return {};
}

Result<SafetensorsHeader> ReadHeader(const std::filesystem::path& path,
                                     int fd,
                                     const SafetensorsLimits& limits) {
  struct stat info {};

  if (fstat(fd, &info) != 0) {
    return FileError("examine", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("'{}' is not a regular file", path.string());
  }
  const auto file_size = static_cast<uint64_t>(info.st_size);
  std::string prefix(std::min<uint64_t>(8, file_size), '\0');
  LR_TRY(ReadAt(path, fd, prefix.data(), prefix.size(), 0));
  LR_ASSIGN(const uint64_t length, ParseSafetensorsLength(prefix, file_size, limits));
  std::string text(length, '\0');
  LR_TRY(ReadAt(path, fd, text.data(), length, prefix.size()));
  return ParseSafetensorsHeader(text, file_size, limits);
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path,
                                              const SafetensorsLimits& limits) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return FileError("open", path, errno);
  }
  Result<SafetensorsHeader> header =
      ReadHeader(path, fd, limits).WithContext("'{}'", path.string());
  if (!header.ok()) {
    close(fd);
    return header.status();
  }
  return SafetensorsFile(path, fd, std::move(header).value());
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path, int fd, SafetensorsHeader header)
    : path_(std::move(path)), fd_(fd), header_(std::move(header)) {
  for (size_t i = 0; i < header_.entries.size(); ++i) {
    index_.emplace(header_.entries[i].name, i);
  }
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      header_(std::move(other.header_)),
      index_(std::move(other.index_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(header_, other.header_);
  std::swap(index_, other.index_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(header_.entries.size());
  for (const SafetensorsEntry& entry : header_.entries) {
    names.push_back(entry.name);
  }
  return names;
}

const SafetensorsEntry* SafetensorsFile::Find(const std::string& name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &header_.entries[it->second];
}

Result<at::Tensor> SafetensorsFile::Load(const std::string& name) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) {
    return NotFound("'{}' has no tensor '{}'", path_.string(), name);
  }
  const std::optional<c10::ScalarType> type = FromSafetensors(entry->dtype);
  if (!type) {
    return Unimplemented("'{}': tensor '{}' has dtype {}, which torch does not have",
                         path_.string(),
                         name,
                         DtypeName(entry->dtype));
  }
  std::vector<int64_t> shape(entry->shape.begin(), entry->shape.end());
  if (entry->dtype == SafetensorsDtype::kF4) {
    if (shape.empty() || shape.back() % 2 != 0) {
      return Unimplemented(
          "'{}': tensor '{}' has an odd last dimension of 4-bit values", path_.string(), name);
    }
    shape.back() /= 2;  // torch packs two values into one element
  }
  // The header's checks bound the size by that of the file.
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(*type));
  if (tensor.nbytes() != entry->bytes()) {
    return Internal("'{}': tensor '{}' has {} bytes, torch expects {}",
                    path_.string(),
                    name,
                    entry->bytes(),
                    tensor.nbytes());
  }
  LR_TRY(ReadAt(path_,
                fd_,
                static_cast<char*>(tensor.data_ptr()),
                entry->bytes(),
                header_.data_start + entry->begin));
  return tensor;
}

Result<NamedTensors> SafetensorsFile::LoadAll() const {
  NamedTensors tensors;
  tensors.reserve(header_.entries.size());
  for (const SafetensorsEntry& entry : header_.entries) {
    LR_ASSIGN(at::Tensor tensor, Load(entry.name));
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace lr::worker
