// libFuzzer target: any bytes as a `.metadata`. The parser must answer, and what it accepts must
// pass its own checks.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/checkpoint/dcp/dcp_metadata_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lr::Result<lr::worker::DcpMetadata> metadata =
      lr::worker::ParseDcpMetadata({reinterpret_cast<const char*>(data), size});
  if (metadata.ok() && !lr::worker::CheckDcpMetadata(*metadata).ok()) {
    std::abort();
  }
  return 0;
}
