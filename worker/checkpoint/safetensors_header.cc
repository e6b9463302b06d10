// Sizes, checks and layout of safetensors headers. See safetensors_header.h; any thread.
#include "worker/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

namespace lr::worker {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and copied as it is");

constexpr uint64_t kAlignment = 8;
constexpr uint64_t kReferenceMaximum = 100'000'000;

struct DtypeInfo {
  std::string_view name;
  uint64_t bits;
};

constexpr std::array<DtypeInfo, 22> kDtypes = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

std::string JsonText(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::strict);
}

Status CheckEntry(const SafetensorsEntry& entry, uint64_t expected_begin) {
  if (entry.end < entry.begin) {
    return InvalidArgument("tensor '{}': data_offsets [{}, {}] end before they begin",
                           entry.name,
                           entry.begin,
                           entry.end);
  }
  if (entry.begin < expected_begin) {
    return InvalidArgument("tensor '{}' begins at {} and overlaps the one that ends at {}",
                           entry.name,
                           entry.begin,
                           expected_begin);
  }
  if (entry.begin > expected_begin) {
    return InvalidArgument("tensor '{}' begins at {}, which leaves a hole after {}",
                           entry.name,
                           entry.begin,
                           expected_begin);
  }
  LR_ASSIGN(const uint64_t bytes,
            TensorBytes(entry.dtype, entry.shape).WithContext("tensor '{}'", entry.name));
  if (bytes != entry.bytes()) {
    return InvalidArgument(
        "tensor '{}' occupies {} bytes, but its shape needs {}", entry.name, entry.bytes(), bytes);
  }
  return {};
}

}  // namespace

std::string_view DtypeName(SafetensorsDtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].name;
}

uint64_t DtypeBits(SafetensorsDtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].bits;
}

std::optional<SafetensorsDtype> DtypeFromName(std::string_view name) {
  const auto* it = std::find_if(
      kDtypes.begin(), kDtypes.end(), [&](const DtypeInfo& info) { return info.name == name; });
  if (it == kDtypes.end()) {
    return std::nullopt;
  }
  return static_cast<SafetensorsDtype>(it - kDtypes.begin());
}

Result<uint64_t> TensorBytes(SafetensorsDtype dtype, const std::vector<uint64_t>& shape) {
  uint64_t bits = DtypeBits(dtype);
  int64_t extent = 1;  // as torch's strides count it: empty dimensions as 1
  for (const uint64_t size : shape) {
    const uint64_t at_least_one = std::max<uint64_t>(size, 1);
    if (__builtin_mul_overflow(bits, size, &bits) ||
        __builtin_mul_overflow(extent, at_least_one, &extent)) {
      return InvalidArgument("overflow: the shape has too many elements to address");
    }
  }
  if (bits % 8 != 0) {
    return InvalidArgument("size mismatch: {} bits do not fill whole bytes", bits);
  }
  return bits / 8;
}

Status CheckSafetensorsLayout(const SafetensorsHeader& header, uint64_t file_size) {
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    LR_TRY(CheckEntry(entry, end));
    end = entry.end;
  }
  const uint64_t data_bytes = file_size - header.data_start;
  if (end > data_bytes) {
    return DataLoss(
        "the file is cut short: its tensors need {} bytes of data, it has {}", end, data_bytes);
  }
  if (end < data_bytes) {
    return InvalidArgument("the file is too long: {} bytes after the last tensor",
                           data_bytes - end);
  }
  return {};
}

Result<SafetensorsHeader> LayOutSafetensors(std::vector<SafetensorsEntry> entries,
                                            SafetensorsMetadata metadata) {
  std::sort(
      entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
      });
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.name == kSafetensorsMetadataName || !names.insert(entry.name).second) {
      return InvalidArgument("tensor name '{}' is reserved or used twice", entry.name);
    }
    LR_ASSIGN(const uint64_t bytes,
              TensorBytes(entry.dtype, entry.shape).WithContext("tensor '{}'", entry.name));
    entry.begin = offset;
    if (__builtin_add_overflow(offset, bytes, &offset)) {
      return OutOfRange("the tensors need more than 2^64 bytes");
    }
    entry.end = offset;
  }
  return SafetensorsHeader{std::move(metadata), std::move(entries), 0};
}

Result<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& header) {
  std::string text = "{";
  try {
    if (!header.metadata.empty()) {
      text += fmt::format("\"{}\":{{", kSafetensorsMetadataName);
      for (const auto& [key, value] : header.metadata) {
        text +=
            fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", JsonText(key), JsonText(value));
      }
      text += "}";
    }
    for (const SafetensorsEntry& entry : header.entries) {
      text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          text.size() == 1 ? "" : ",",
                          JsonText(entry.name),
                          DtypeName(entry.dtype),
                          fmt::join(entry.shape, ","),
                          entry.begin,
                          entry.end);
    }
  } catch (const nlohmann::json::type_error&) {
    return InvalidArgument("a tensor name or metadata text is not UTF-8");
  }
  text += "}";
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kReferenceMaximum) {
    return OutOfRange(
        "the header is too large: {} bytes (limit {})", text.size(), kReferenceMaximum);
  }
  const uint64_t length = text.size();
  std::string encoded(kSafetensorsLengthBytes, '\0');
  std::memcpy(encoded.data(), &length, kSafetensorsLengthBytes);
  return encoded + text;
}

}  // namespace lr::worker
