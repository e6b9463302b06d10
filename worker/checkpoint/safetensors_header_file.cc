// See the header.
#include "worker/checkpoint/safetensors_header_file.h"

#include <algorithm>
#include <string>

namespace lr::worker {

Result<SafetensorsHeader> ReadSafetensorsHeader(const PositionedFile& file,
                                                const SafetensorsLimits& limits) {
  const auto read = [&]() -> Result<SafetensorsHeader> {
    std::string prefix(std::min<uint64_t>(kSafetensorsLengthBytes, file.size()), '\0');
    LR_TRY(file.Read(prefix.data(), prefix.size(), 0));
    LR_ASSIGN(const uint64_t length, ParseSafetensorsLength(prefix, file.size(), limits));
    std::string text(length, '\0');
    LR_TRY(file.Read(text.data(), length, prefix.size()));
    return ParseSafetensorsHeader(text, file.size(), limits);
  };
  return read().WithContext("'{}'", file.path().string());
}

Result<SafetensorsHeader> ReadSafetensorsHeader(const std::filesystem::path& path) {
  LR_ASSIGN(const PositionedFile file, PositionedFile::Open(path));
  return ReadSafetensorsHeader(file);
}

}  // namespace lr::worker
