// (pure) checkpoints.md 4.2.2 and 4.4.4.
#include "worker/checkpoint/dcp/dcp_dtype.h"

#include <algorithm>
#include <array>

namespace lr::worker {
namespace {

constexpr std::array<DcpDtype, 20> kDtypes = {{
    {"torch.float32", "FloatStorage", 4},
    {"torch.float64", "DoubleStorage", 8},
    {"torch.float16", "HalfStorage", 2},
    {"torch.bfloat16", "BFloat16Storage", 2},
    {"torch.int64", "LongStorage", 8},
    {"torch.int32", "IntStorage", 4},
    {"torch.int16", "ShortStorage", 2},
    {"torch.int8", "CharStorage", 1},
    {"torch.uint8", "ByteStorage", 1},
    {"torch.bool", "BoolStorage", 1},
    {"torch.complex64", "ComplexFloatStorage", 8},
    {"torch.complex128", "ComplexDoubleStorage", 16},
    {"torch.uint16", "", 2},
    {"torch.uint32", "", 4},
    {"torch.uint64", "", 8},
    {"torch.float8_e4m3fn", "", 1},
    {"torch.float8_e4m3fnuz", "", 1},
    {"torch.float8_e5m2", "", 1},
    {"torch.float8_e5m2fnuz", "", 1},
    {"torch.float8_e8m0fnu", "", 1},
}};

}  // namespace

std::span<const DcpDtype> DcpDtypes() {
  return kDtypes;
}

const DcpDtype* FindDcpDtype(std::string_view name) {
  const auto* found = std::find_if(
      kDtypes.begin(), kDtypes.end(), [&](const DcpDtype& dtype) { return dtype.name == name; });
  return found == kDtypes.end() ? nullptr : found;
}

}  // namespace lr::worker
