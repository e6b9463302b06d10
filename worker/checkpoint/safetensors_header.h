#pragma once
/// (pure) The header of a safetensors file: parsing with every check of the format, and laying out
/// a new one exactly as the reference writer does (checkpoints.md 1). No LibTorch, no files: fuzzed
/// and tested alone.
///
///   offset 0      8 bytes   N, unsigned little-endian: length of the header text with padding
///   offset 8      N bytes   JSON object, UTF-8, padded with spaces to a multiple of 8:
///                           name -> {"dtype", "shape", "data_offsets": [begin, end)}, and at most
///                           one "__metadata__" object of strings
///   offset 8 + N  rest      tensor data, no holes, ends with the file
///
/// Offsets are relative to the start of the data. On disk tensors are ordered by dtype index
/// descending, then by name.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// Enumeration order of the reference implementation: it decides the order on disk.
enum class SafetensorsDtype : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr char kSafetensorsMetadataName[] = "__metadata__";

/// "F32", "BF16", …
std::string_view DtypeName(SafetensorsDtype dtype);
std::optional<SafetensorsDtype> DtypeFromName(std::string_view name);
uint64_t DtypeBits(SafetensorsDtype dtype);

struct SafetensorsEntry {
  std::string name;
  SafetensorsDtype dtype = SafetensorsDtype::kF32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  SafetensorsMetadata metadata;
  std::vector<SafetensorsEntry> entries;  ///< by (begin, end)
  uint64_t data_start = 0;                ///< offset of the data in the file
};

/// A hostile file cannot cost more than this.
struct SafetensorsLimits {
  uint64_t max_header_bytes = 100'000'000;
  uint64_t max_rank = 64;
};

/// The length of the header text from the first bytes of a file (`prefix`: the first 8, or fewer
/// when the file is shorter), checked against the file's size before anything is allocated.
Result<uint64_t> ParseSafetensorsLength(std::string_view prefix,
                                        uint64_t file_size,
                                        const SafetensorsLimits& limits = {});

/// `text`: the header's N bytes; `file_size`: of the whole file.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                 uint64_t file_size,
                                                 const SafetensorsLimits& limits = {});

/// The entries, sorted by (begin, end), cover the data of a file of `file_size` exactly: no hole,
/// no overlap, sizes as the shapes need them.
Status CheckSafetensorsLayout(const SafetensorsHeader& header, uint64_t file_size);

/// Number of bytes of a tensor; fails on overflow and on sub-byte types that do not fill whole
/// bytes.
Result<uint64_t> TensorBytes(SafetensorsDtype dtype, const std::vector<uint64_t>& shape);

/// Orders `entries` (name, dtype and shape filled in) as the reference writer does and assigns the
/// offsets. Fails on a repeated name.
Result<SafetensorsHeader> LayOutSafetensors(std::vector<SafetensorsEntry> entries,
                                            SafetensorsMetadata metadata);

/// The file's first 8 + N bytes.
Result<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace lr::worker
