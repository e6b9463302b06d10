#pragma once
/// Small files and folders of the kernel (/proc, /sys, /dev): what cannot be read is empty.

#include <filesystem>
#include <string>
#include <vector>

namespace lr::launcher {

/// The first `limit` bytes.
std::string ReadSmallFile(const std::filesystem::path& path, size_t limit = 4096);

/// In no particular order.
std::vector<std::filesystem::path> ListFolder(const std::filesystem::path& folder);

}  // namespace lr::launcher
