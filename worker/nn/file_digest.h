#pragma once
/// SHA-256 in lower-case hexadecimal. Any thread.

#include <cstddef>
#include <filesystem>
#include <string>

#include "common/base/status.h"

namespace lr::worker {

std::string Sha256(const void* data, size_t size);

/// Of a file's content, read in pieces.
Result<std::string> Sha256OfFile(const std::filesystem::path& path);

}  // namespace lr::worker
