// The table; see the header.
#include "worker/checkpoint/dcp/dcp_tensor_type.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lr::worker {
namespace {

using Pair = std::pair<c10::ScalarType, std::string_view>;

constexpr std::array<Pair, 12> kPairs = {{
    {c10::ScalarType::Float, "torch.float32"},
    {c10::ScalarType::Double, "torch.float64"},
    {c10::ScalarType::Half, "torch.float16"},
    {c10::ScalarType::BFloat16, "torch.bfloat16"},
    {c10::ScalarType::Long, "torch.int64"},
    {c10::ScalarType::Int, "torch.int32"},
    {c10::ScalarType::Short, "torch.int16"},
    {c10::ScalarType::Char, "torch.int8"},
    {c10::ScalarType::Byte, "torch.uint8"},
    {c10::ScalarType::Bool, "torch.bool"},
    {c10::ScalarType::ComplexFloat, "torch.complex64"},
    {c10::ScalarType::ComplexDouble, "torch.complex128"},
}};

}  // namespace

const DcpDtype* DcpDtypeOf(c10::ScalarType type) {
  const auto* it = std::find_if(
      kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.first == type; });
  return it == kPairs.end() ? nullptr : FindDcpDtype(it->second);
}

std::optional<c10::ScalarType> ScalarTypeOf(const DcpDtype& dtype) {
  const auto* it = std::find_if(
      kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.second == dtype.name; });
  return it == kPairs.end() ? std::nullopt : std::optional(it->first);
}

}  // namespace lr::worker
