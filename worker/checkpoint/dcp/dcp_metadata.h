#pragma once
/// (pure) What the `.metadata` of a torch distributed checkpoint says, as plain structs, and the
/// checks that torch does not make when it loads one (checkpoints.md 4.2.3, 4.8, 4.10).
///
/// Made by dcp_metadata_parser.h or by the save (dcp_save.h); read by DcpDirectory.

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_dtype.h"

namespace lr::worker {

/// One item's bytes inside a shard file.
struct DcpLocation {
  std::string file;
  uint64_t offset = 0;
  uint64_t length = 0;

  bool operator==(const DcpLocation&) const = default;
};

/// A stored block of a tensor. Empty ones (shards without rows) are written, but not read.
struct DcpChunk {
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  DcpLocation location;

  bool operator==(const DcpChunk&) const = default;
};

struct DcpTensor {
  const DcpDtype* dtype = nullptr;
  std::vector<int64_t> size;  ///< of the whole tensor
  std::vector<DcpChunk> chunks;

  bool operator==(const DcpTensor&) const = default;
};

/// Where a key lies in the nested state: dictionary keys and list indices.
using DcpPath = std::vector<std::variant<std::string, int64_t>>;

struct DcpMetadata {
  std::map<std::string, DcpTensor> tensors;
  std::map<std::string, DcpLocation> values;  ///< everything that is no tensor
  std::map<std::string, DcpPath> paths;       ///< empty: the keys are the names

  bool operator==(const DcpMetadata&) const = default;
};

/// Number of elements; fails on negative sizes and on more than an int64 of bytes (16 each).
Result<int64_t> DcpVolume(const std::vector<int64_t>& sizes);

/// Shapes are valid, the chunks of each tensor tile it, file names are single path components.
/// Errors (kInvalidArgument) name the key.
Status CheckDcpMetadata(const DcpMetadata& metadata);

/// Every item, by key: tensors' blocks, then values.
std::vector<DcpLocation> DcpLocations(const DcpMetadata& metadata);

/// The names of all files that hold something.
std::vector<std::string> DcpFileNames(const DcpMetadata& metadata);

/// Every item lies within its file, is large enough for its block, and no two overlap (the same
/// item under two keys is allowed). Errors are kDataLoss: a file that is too short was cut.
Status CheckDcpRanges(const DcpMetadata& metadata, const std::map<std::string, uint64_t>& sizes);

}  // namespace lr::worker
