#pragma once
/// Paths of the recorded checkpoints and their bytes.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lr::worker {

inline std::filesystem::path DcpFixture(const std::string& name) {
  return std::filesystem::path(LR_TEST_DATA) / "checkpoints" / "dcp" / name;
}

inline std::filesystem::path MalformedDcp(const std::string& name) {
  return std::filesystem::path(LR_TEST_DATA) / "checkpoints" / "malformed" / "dcp" / name;
}

inline std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace lr::worker
