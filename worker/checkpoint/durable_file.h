#pragma once
/// A file that is written as a stream and appears whole: temporary sibling, checksum on the way,
/// flush, rename. The streaming brother of WriteFileAtomic (common/io), for files that do not fit
/// into memory twice.
///
/// One thread; blocking. An object that is destroyed before Finish() removes its temporary file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace lr::worker {

inline constexpr char kChecksumAlgorithm[] = "crc32";

/// What a finished file amounts to: fields of the checkpoint's manifest.
struct WrittenFile {
  uint64_t size = 0;
  std::string checksum;  ///< crc32, eight lower-case hex digits
};

class DurableFile {
 public:
  static Result<DurableFile> Create(const std::filesystem::path& path);

  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&& other) = delete;
  ~DurableFile();

  /// Appends. Errors (disk full, read-only, …) name the path.
  Status Write(std::string_view bytes);

  /// Bytes written so far.
  uint64_t size() const { return size_; }

  /// Where the bytes lie until Finish(), to be read back after Flush().
  const std::filesystem::path& temporary() const { return temporary_; }

  /// Flushes to disk what was written.
  Result<WrittenFile> Flush();

  /// Flushes to disk and renames over the final path. The folder itself is not flushed: the caller
  /// does that once for all its files.
  Result<WrittenFile> Finish();

 private:
  DurableFile(std::filesystem::path path, std::filesystem::path temporary, int fd);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uint32_t crc_ = 0;
};

/// The whole of `bytes` as one durable file.
Result<WrittenFile> WriteDurableFile(const std::filesystem::path& path, std::string_view bytes);

/// The crc32 of what `crc` was of, followed by `bytes`; 0 to begin with.
uint32_t UpdateCrc32(uint32_t crc, std::string_view bytes);

/// crc32 of a file on disk, as eight hex digits.
Result<std::string> ChecksumOfFile(const std::filesystem::path& path);

/// A Status for a failed system call: the code that fits `error` (full disk: kResourceExhausted, no
/// rights or read-only: kPermissionDenied, …), the message "cannot <verb> '<path>': <reason>".
Status FileError(std::string_view verb, const std::filesystem::path& path, int error);

}  // namespace lr::worker
