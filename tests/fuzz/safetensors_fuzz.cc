// libFuzzer target: any bytes as a safetensors file. The parser must answer, and what it accepts
// must be writable again with the same tensors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/checkpoint/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const lr::Result<uint64_t> length = lr::worker::ParseSafetensorsLength(bytes.substr(0, 8), size);
  if (!length.ok()) {
    return 0;
  }
  const lr::Result<lr::worker::SafetensorsHeader> header =
      lr::worker::ParseSafetensorsHeader(bytes.substr(8, *length), size);
  if (!header.ok()) {
    return 0;
  }
  const lr::Result<lr::worker::SafetensorsHeader> again =
      lr::worker::LayOutSafetensors(header->entries, header->metadata);
  if (!again.ok() || again->entries.size() != header->entries.size() ||
      !lr::worker::EncodeSafetensorsHeader(*again).ok()) {
    std::abort();
  }
  return 0;
}
