// (pure) The checks of a checkpoint's structure.
#include "worker/checkpoint/dcp/dcp_metadata.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

namespace lr::worker {
namespace {

constexpr int64_t kLargestElement = 16;
constexpr size_t kMostChunks = size_t{1} << 16;  // of one tensor: comparing them costs time
constexpr size_t kLongestFileName = 255;

Status CheckFileName(const std::string& name) {
  const bool is_safe = !name.empty() && name.size() <= kLongestFileName && name[0] != '.' &&
                       name.find_first_of(std::string_view("/\\:\0", 4)) == std::string::npos;
  return is_safe ? Status() : InvalidArgument("'{}' is not a plain file name", name);
}

Status CheckBounds(const DcpTensor& tensor, const DcpChunk& chunk) {
  const size_t rank = tensor.size.size();
  bool is_inside = chunk.offsets.size() == rank && chunk.sizes.size() == rank;
  for (size_t i = 0; is_inside && i < rank; ++i) {
    is_inside = chunk.offsets[i] >= 0 && chunk.sizes[i] >= 0 &&
                chunk.offsets[i] <= tensor.size[i] &&
                chunk.sizes[i] <= tensor.size[i] - chunk.offsets[i];
  }
  return is_inside ? Status()
                   : InvalidArgument("chunk [{}]+[{}] lies outside the shape [{}]",
                                     fmt::join(chunk.offsets, ", "),
                                     fmt::join(chunk.sizes, ", "),
                                     fmt::join(tensor.size, ", "));
}

bool Overlap(const DcpChunk& a, const DcpChunk& b) {
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.offsets[i] >= b.offsets[i] + b.sizes[i] || b.offsets[i] >= a.offsets[i] + a.sizes[i]) {
      return false;
    }
  }
  return true;
}

/// Sorted by first row, so that a chunk is compared only with those that begin before it ends.
Status CheckNoOverlap(const DcpTensor& tensor) {
  std::vector<const DcpChunk*> sorted;
  for (const DcpChunk& chunk : tensor.chunks) {
    sorted.push_back(&chunk);
  }
  std::sort(sorted.begin(), sorted.end(), [](const DcpChunk* a, const DcpChunk* b) {
    return a->offsets < b->offsets;
  });
  for (size_t i = 0; i < sorted.size(); ++i) {
    const DcpChunk& chunk = *sorted[i];
    for (size_t j = i + 1; j < sorted.size(); ++j) {
      if (!chunk.sizes.empty() && sorted[j]->offsets[0] >= chunk.offsets[0] + chunk.sizes[0]) {
        break;
      }
      if (Overlap(chunk, *sorted[j])) {
        return InvalidArgument("the chunks at [{}] and [{}] overlap",
                               fmt::join(chunk.offsets, ", "),
                               fmt::join(sorted[j]->offsets, ", "));
      }
    }
  }
  return {};
}

Status CheckTensor(const DcpTensor& tensor) {
  LR_ASSIGN(const int64_t volume, DcpVolume(tensor.size));
  if (tensor.chunks.size() > kMostChunks) {
    return InvalidArgument("{} chunks (limit {})", tensor.chunks.size(), kMostChunks);
  }
  int64_t stored = 0;
  for (const DcpChunk& chunk : tensor.chunks) {
    LR_TRY(CheckBounds(tensor, chunk));
    LR_TRY(CheckFileName(chunk.location.file));
  }
  LR_TRY(CheckNoOverlap(tensor));
  for (const DcpChunk& chunk : tensor.chunks) {
    LR_ASSIGN(const int64_t elements, DcpVolume(chunk.sizes));
    stored += elements;
  }
  if (stored != volume) {
    return InvalidArgument("the chunks hold {} of {} elements", stored, volume);
  }
  return {};
}

/// Every item as (location, key).
std::vector<std::pair<const DcpLocation*, const std::string*>> Items(const DcpMetadata& metadata) {
  std::vector<std::pair<const DcpLocation*, const std::string*>> items;
  for (const auto& [key, tensor] : metadata.tensors) {
    for (const DcpChunk& chunk : tensor.chunks) {
      items.emplace_back(&chunk.location, &key);
    }
  }
  for (const auto& [key, location] : metadata.values) {
    items.emplace_back(&location, &key);
  }
  return items;
}

}  // namespace

Result<int64_t> DcpVolume(const std::vector<int64_t>& sizes) {
  int64_t volume = kLargestElement;
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(volume, std::max<int64_t>(size, 1), &volume)) {
      return InvalidArgument("the shape [{}] is negative or too large", fmt::join(sizes, ", "));
    }
  }
  const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  return is_empty ? 0 : volume / kLargestElement;
}

Status CheckDcpMetadata(const DcpMetadata& metadata) {
  for (const auto& [key, tensor] : metadata.tensors) {
    LR_TRY(CheckTensor(tensor).WithContext("tensor '{}'", key));
  }
  for (const auto& [key, location] : metadata.values) {
    LR_TRY(CheckFileName(location.file).WithContext("value '{}'", key));
  }
  return {};
}

std::vector<DcpLocation> DcpLocations(const DcpMetadata& metadata) {
  std::vector<DcpLocation> locations;
  for (const auto& [location, key] : Items(metadata)) {
    locations.push_back(*location);
  }
  return locations;
}

std::vector<std::string> DcpFileNames(const DcpMetadata& metadata) {
  std::set<std::string> names;
  for (const auto& [location, key] : Items(metadata)) {
    names.insert(location->file);
  }
  return {names.begin(), names.end()};
}

namespace {

/// An item also holds its archive's records, so it is larger than its block: what a reader claims
/// for a block is bounded by the files.
Status CheckItemSizes(const DcpMetadata& metadata) {
  for (const auto& [key, tensor] : metadata.tensors) {
    for (const DcpChunk& chunk : tensor.chunks) {
      LR_ASSIGN(const int64_t elements, DcpVolume(chunk.sizes));
      if (static_cast<uint64_t>(elements * tensor.dtype->bytes) > chunk.location.length) {
        return DataLoss("'{}': {} bytes at {} of '{}' for {} elements of {}",
                        key,
                        chunk.location.length,
                        chunk.location.offset,
                        chunk.location.file,
                        elements,
                        tensor.dtype->name);
      }
    }
  }
  return {};
}

}  // namespace

Status CheckDcpRanges(const DcpMetadata& metadata, const std::map<std::string, uint64_t>& sizes) {
  auto items = Items(metadata);
  std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first->file, a.first->offset, a.first->length) <
           std::tie(b.first->file, b.first->offset, b.first->length);
  });
  const DcpLocation* before = nullptr;
  for (const auto& [location, key] : items) {
    const auto size = sizes.find(location->file);
    if (size == sizes.end() || location->offset > size->second ||
        location->length > size->second - location->offset) {
      return DataLoss("'{}': {} bytes at {} of '{}' reach past its end ({} bytes)",
                      *key,
                      location->length,
                      location->offset,
                      location->file,
                      size == sizes.end() ? 0 : size->second);
    }
    if (before != nullptr && before->file == location->file && !(*before == *location) &&
        before->offset + before->length > location->offset) {
      return DataLoss("'{}': its bytes at {} of '{}' overlap another item's",
                      *key,
                      location->offset,
                      location->file);
    }
    before = location;
  }
  return CheckItemSizes(metadata);
}

}  // namespace lr::worker
