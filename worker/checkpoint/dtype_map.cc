#include "worker/checkpoint/dtype_map.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lr::worker {
namespace {

using Pair = std::pair<c10::ScalarType, SafetensorsDtype>;

constexpr std::array<Pair, 20> kPairs = {{
    {c10::ScalarType::Bool, SafetensorsDtype::kBool},
    {c10::ScalarType::Float4_e2m1fn_x2, SafetensorsDtype::kF4},
    {c10::ScalarType::Byte, SafetensorsDtype::kU8},
    {c10::ScalarType::Char, SafetensorsDtype::kI8},
    {c10::ScalarType::Float8_e5m2, SafetensorsDtype::kF8E5M2},
    {c10::ScalarType::Float8_e4m3fn, SafetensorsDtype::kF8E4M3},
    {c10::ScalarType::Float8_e8m0fnu, SafetensorsDtype::kF8E8M0},
    {c10::ScalarType::Float8_e4m3fnuz, SafetensorsDtype::kF8E4M3Fnuz},
    {c10::ScalarType::Float8_e5m2fnuz, SafetensorsDtype::kF8E5M2Fnuz},
    {c10::ScalarType::Short, SafetensorsDtype::kI16},
    {c10::ScalarType::UInt16, SafetensorsDtype::kU16},
    {c10::ScalarType::Half, SafetensorsDtype::kF16},
    {c10::ScalarType::BFloat16, SafetensorsDtype::kBF16},
    {c10::ScalarType::Int, SafetensorsDtype::kI32},
    {c10::ScalarType::UInt32, SafetensorsDtype::kU32},
    {c10::ScalarType::Float, SafetensorsDtype::kF32},
    {c10::ScalarType::ComplexFloat, SafetensorsDtype::kC64},
    {c10::ScalarType::Double, SafetensorsDtype::kF64},
    {c10::ScalarType::Long, SafetensorsDtype::kI64},
    {c10::ScalarType::UInt64, SafetensorsDtype::kU64},
}};

}  // namespace

std::optional<SafetensorsDtype> ToSafetensors(c10::ScalarType type) {
  const auto* it = std::find_if(
      kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.first == type; });
  return it == kPairs.end() ? std::nullopt : std::optional(it->second);
}

std::optional<c10::ScalarType> FromSafetensors(SafetensorsDtype dtype) {
  const auto* it = std::find_if(
      kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.second == dtype; });
  return it == kPairs.end() ? std::nullopt : std::optional(it->first);
}

}  // namespace lr::worker
