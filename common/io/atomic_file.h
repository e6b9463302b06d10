#pragma once
/// Whole files: bounded reading, and writing that a crash cannot leave half done. Any thread;
/// blocking.

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "common/base/status.h"

namespace lr {

/// The whole file; kNotFound when missing, kOutOfRange above `max_bytes` (the file is then not
/// read).
Result<std::string> ReadFile(const std::string& path, size_t max_bytes = size_t{64} << 20);

/// kFlushed survives the loss of power. kQuick never waits for the disk: for what is of no use
/// after a restart of the machine.
enum class Durability { kFlushed, kQuick };

/// Writes a temporary sibling, flushes it, renames it over `path` and flushes the folder: readers
/// see the old or the new content, never a part. On failure the sibling is removed and `path` is
/// untouched.
Status WriteFileAtomic(const std::string& path,
                       std::string_view bytes,
                       mode_t mode = 0644,
                       Durability durability = Durability::kFlushed);

/// Makes renames and new names inside `directory` durable.
Status FsyncDirectory(const std::string& directory);

}  // namespace lr
