#include "common/contract/fingerprint.h"

#include <cstdint>

#include <fmt/format.h>

namespace lr {

std::string Fingerprint(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : text) {
    hash = (hash ^ byte) * 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace lr
