// (pure) The three end records, the central directory, the local headers.
#include "worker/checkpoint/dcp/archive_index.h"

#include <limits>
#include <optional>

namespace lr::worker {
namespace {

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kLargestDirectory = uint64_t{64} << 10;
constexpr uint32_t kSaturated = std::numeric_limits<uint32_t>::max();
constexpr uint16_t kZip64 = 1;  // id of the extra field with the real values

/// Little-endian number at `offset`; the caller has checked the length.
template <typename T>
T Number(std::string_view bytes, uint64_t offset) {
  T number = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    number = static_cast<T>(
        number |
        static_cast<T>(static_cast<T>(static_cast<uint8_t>(bytes[offset + i])) << (8 * i)));
  }
  return number;
}

bool HasSignature(std::string_view bytes, std::string_view letters) {
  return bytes.size() >= 4 && bytes.substr(0, 2) == "PK" && bytes.substr(2, 2) == letters;
}

/// The block of the extra field that holds what did not fit into 32 bits.
std::string_view Zip64Block(std::string_view extra) {
  while (extra.size() >= 4) {
    const auto id = Number<uint16_t>(extra, 0);
    const size_t length = Number<uint16_t>(extra, 2);
    if (length > extra.size() - 4) {
      return {};
    }
    if (id == kZip64) {
      return extra.substr(4, length);
    }
    extra.remove_prefix(4 + length);
  }
  return {};
}

/// Takes the next 64-bit value when the 32-bit one is saturated.
Status Widen(uint64_t& value, std::string_view& block) {
  if (value != kSaturated) {
    return {};
  }
  if (block.size() < 8) {
    return InvalidArgument("archive: a record of 4 GiB or more without its 64-bit values");
  }
  value = Number<uint64_t>(block, 0);
  block.remove_prefix(8);
  return {};
}

/// One entry from the front of `bytes`, which loses it.
Result<ArchiveRecord> TakeEntry(std::string_view& bytes) {
  if (!HasSignature(bytes, "\1\2") || bytes.size() < kEntryBytes) {
    return InvalidArgument("archive: the directory is damaged");
  }
  const auto flags = Number<uint16_t>(bytes, 8);
  const auto method = Number<uint16_t>(bytes, 10);
  ArchiveRecord record;
  record.crc = Number<uint32_t>(bytes, 16);
  uint64_t stored = Number<uint32_t>(bytes, 20);
  record.size = Number<uint32_t>(bytes, 24);
  record.name_bytes = Number<uint16_t>(bytes, 28);
  const uint64_t extra_bytes = Number<uint16_t>(bytes, 30);
  const uint64_t comment_bytes = Number<uint16_t>(bytes, 32);
  record.header_offset = Number<uint32_t>(bytes, 42);
  if (record.name_bytes + extra_bytes + comment_bytes > bytes.size() - kEntryBytes) {
    return InvalidArgument("archive: the directory is cut short");
  }
  record.name = bytes.substr(kEntryBytes, record.name_bytes);
  std::string_view block = Zip64Block(bytes.substr(kEntryBytes + record.name_bytes, extra_bytes));
  LR_TRY(Widen(record.size, block));
  LR_TRY(Widen(stored, block));
  LR_TRY(Widen(record.header_offset, block));
  if (method != 0 || stored != record.size || (flags & 1U) != 0) {
    return InvalidArgument("archive: record '{}' is compressed or encrypted", record.name);
  }
  bytes.remove_prefix(kEntryBytes + record.name_bytes + extra_bytes + comment_bytes);
  return record;
}

}  // namespace

Result<ArchiveDirectory> FindArchiveDirectory(std::string_view tail, uint64_t archive_bytes) {
  if (tail.size() < kEndBytes || !HasSignature(tail.substr(tail.size() - kEndBytes), "\5\6")) {
    return InvalidArgument("archive: no end record; it was cut short or is none");
  }
  const std::string_view end = tail.substr(tail.size() - kEndBytes);
  const uint64_t records_end = archive_bytes - kEndBytes;
  ArchiveDirectory directory{Number<uint32_t>(end, 16), Number<uint32_t>(end, 12)};
  uint64_t limit = records_end;
  if (tail.size() >= kArchiveTail &&
      HasSignature(tail.substr(tail.size() - kEndBytes - kLocatorBytes), "\6\7")) {
    const std::string_view end64 = tail.substr(tail.size() - kArchiveTail);
    if (!HasSignature(end64, "\6\6")) {
      return InvalidArgument("archive: its end is damaged");
    }
    directory = {Number<uint64_t>(end64, 48), Number<uint64_t>(end64, 40)};
    limit = archive_bytes - kArchiveTail;
  }
  if (directory.bytes > kLargestDirectory || directory.offset > limit ||
      directory.bytes > limit - directory.offset) {
    return InvalidArgument("archive: a directory of {} bytes at {} of {}",
                           directory.bytes,
                           directory.offset,
                           archive_bytes);
  }
  return directory;
}

Result<std::vector<ArchiveRecord>> ParseArchiveDirectory(std::string_view bytes) {
  std::vector<ArchiveRecord> records;
  std::optional<std::string> folder;
  while (!bytes.empty()) {
    LR_ASSIGN(ArchiveRecord record, TakeEntry(bytes));
    const size_t slash = record.name.find('/');
    const std::string own = record.name.substr(0, slash);
    if (slash == std::string::npos || (folder && *folder != own)) {
      return InvalidArgument("archive: record '{}' is not in the archive's folder", record.name);
    }
    folder = own;
    record.name.erase(0, slash + 1);
    records.push_back(std::move(record));
  }
  return records;
}

Result<uint64_t> ArchiveDataOffset(std::string_view header,
                                   const ArchiveRecord& record,
                                   uint64_t limit) {
  if (!HasSignature(header, "\3\4") || header.size() < kArchiveHeaderBytes ||
      Number<uint16_t>(header, 26) != record.name_bytes) {
    return InvalidArgument("archive: the header of record '{}' is damaged", record.name);
  }
  const uint64_t skipped = kArchiveHeaderBytes + record.name_bytes + Number<uint16_t>(header, 28);
  if (record.header_offset > limit || skipped > limit - record.header_offset ||
      record.size > limit - record.header_offset - skipped) {
    return InvalidArgument("archive: record '{}' reaches past the records' end", record.name);
  }
  return record.header_offset + skipped;
}

}  // namespace lr::worker
