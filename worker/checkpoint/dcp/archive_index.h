#pragma once
/// (pure) Where the records of a torch.save archive lie (checkpoints.md 4.4.2). The caller reads
/// the few bytes that are asked for and passes them in; called by dcp_item.h and the fuzzer.
///
/// Only what torch writes is accepted: stored records, one disk, an end without a comment. Errors
/// are kInvalidArgument.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// At least this much of the archive's end is needed to find its directory.
inline constexpr uint64_t kArchiveTail = 22 + 20 + 56;

/// The central directory's place within the archive.
struct ArchiveDirectory {
  uint64_t offset = 0;
  uint64_t bytes = 0;  ///< at most 64 KiB: an item has about seven records
};

struct ArchiveRecord {
  std::string name;  ///< without the archive's folder
  uint32_t name_bytes = 0;
  uint64_t header_offset = 0;
  uint64_t size = 0;
  uint32_t crc = 0;
};

/// `tail`: the last bytes of an archive of `archive_bytes`, kArchiveTail of them or all.
Result<ArchiveDirectory> FindArchiveDirectory(std::string_view tail, uint64_t archive_bytes);

/// All records; every name is in one folder.
Result<std::vector<ArchiveRecord>> ParseArchiveDirectory(std::string_view bytes);

/// How many bytes of a record's own header ArchiveDataOffset needs.
inline constexpr uint64_t kArchiveHeaderBytes = 30;

/// Where the record's bytes begin; they end before `limit`, where the directory begins.
Result<uint64_t> ArchiveDataOffset(std::string_view header,
                                   const ArchiveRecord& record,
                                   uint64_t limit);

}  // namespace lr::worker
