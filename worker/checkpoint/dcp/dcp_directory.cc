// Whole rows go straight into the target; blocks that are narrower than the tensor go through a
// buffer.
#include "worker/checkpoint/dcp/dcp_directory.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "worker/checkpoint/dcp/dcp_metadata_parser.h"
#include "worker/checkpoint/dcp/strided_copy.h"
#include "worker/checkpoint/durable_file.h"

namespace lr::worker {
namespace {

constexpr uint64_t kLargestMetadata = uint64_t{256} << 20;
constexpr int64_t kBufferBytes = int64_t{16} << 20;

/// Elements of one row of a block or tensor.
int64_t RowElements(const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (size_t i = 1; i < sizes.size(); ++i) {
    elements *= sizes[i];
  }
  return elements;
}

bool IsFullWidth(const DcpTensor& tensor, const DcpChunk& chunk) {
  return tensor.size.size() < 2 ||
         std::equal(tensor.size.begin() + 1, tensor.size.end(), chunk.sizes.begin() + 1);
}

/// Where a block's row `row` of the target begins, in elements.
int64_t PlaceOf(const DcpChunk& chunk, int64_t row, const std::vector<int64_t>& strides) {
  int64_t place = strides.empty() ? 0 : row * strides[0];
  for (size_t i = 1; i < strides.size(); ++i) {
    place += chunk.offsets[i] * strides[i];
  }
  return place;
}

/// The shape of some rows of a block.
std::vector<int64_t> BoxOf(const DcpChunk& chunk, int64_t rows) {
  std::vector<int64_t> sizes = chunk.sizes;
  if (!sizes.empty()) {
    sizes[0] = rows;
  }
  return sizes;
}

uint32_t CrcOf(uint32_t before, const std::byte* bytes, uint64_t count) {
  return UpdateCrc32(before, {reinterpret_cast<const char*>(bytes), count});
}

}  // namespace

DcpRows WholeOf(const DcpTensor& tensor) {
  return {0, tensor.size.empty() ? 1 : tensor.size[0]};
}

uint64_t BytesOfRows(const DcpTensor& tensor, DcpRows rows) {
  return rows.count == 0
             ? 0
             : static_cast<uint64_t>(rows.count * RowElements(tensor.size) * tensor.dtype->bytes);
}

Result<DcpDirectory> DcpDirectory::Open(const std::filesystem::path& path, DcpChecksums checksums) {
  const auto open = [&]() -> Result<DcpDirectory> {
    LR_ASSIGN(const PositionedFile file,
              PositionedFile::Open(path / ".metadata")
                  .WithContext("its save was never finished, or it is none"));
    if (file.size() > kLargestMetadata) {
      return InvalidArgument(".metadata has {} bytes (limit {})", file.size(), kLargestMetadata);
    }
    std::string bytes(file.size(), '\0');
    LR_TRY(file.Read(bytes.data(), bytes.size(), 0));
    LR_ASSIGN(DcpMetadata metadata, ParseDcpMetadata(bytes).WithContext(".metadata"));
    DcpDirectory directory(path, checksums, std::move(metadata));
    LR_TRY(directory.CheckFiles());
    return directory;
  };
  return open().WithContext("checkpoint '{}'", path.string());
}

Status DcpDirectory::CheckFiles() {
  std::map<std::string, uint64_t> sizes;
  for (const std::string& name : DcpFileNames(metadata_)) {
    LR_ASSIGN(const PositionedFile file, PositionedFile::Open(path_ / name));
    sizes[name] = file.size();
  }
  return CheckDcpRanges(metadata_, sizes);
}

Result<const PositionedFile*> DcpDirectory::FileOf(const DcpLocation& location) {
  const std::filesystem::path path = path_ / location.file;
  if (!file_ || file_->path() != path) {
    LR_ASSIGN(file_, PositionedFile::Open(path));
  }
  return &*file_;
}

Result<const DcpTensor*> DcpDirectory::Find(const std::string& key) const {
  const auto found = metadata_.tensors.find(key);
  if (found == metadata_.tensors.end()) {
    return NotFound("checkpoint '{}' has no tensor '{}'", path_.string(), key);
  }
  return &found->second;
}

Status DcpDirectory::CheckRows(const std::string& key, DcpRows wanted) const {
  LR_ASSIGN(const DcpTensor* tensor, Find(key));
  const int64_t rows = WholeOf(*tensor).count;
  const bool has_them = wanted.first >= 0 && wanted.count >= 0 && wanted.first <= rows &&
                        wanted.count <= rows - wanted.first;
  return has_them ? Status()
                  : InvalidArgument("rows [{}, {}) of tensor '{}', which has {}",
                                    wanted.first,
                                    wanted.first + wanted.count,
                                    key,
                                    rows);
}

Status DcpDirectory::ReadRows(const std::string& key, DcpRows wanted, std::span<std::byte> target) {
  LR_TRY(CheckRows(key, wanted));
  LR_ASSIGN(const DcpTensor* tensor, Find(key));
  LR_CHECK(target.size() == BytesOfRows(*tensor, wanted),
           "{} bytes for rows of '{}' that have {}",
           target.size(),
           key,
           BytesOfRows(*tensor, wanted));
  const Target place{tensor, ContiguousStrides(tensor->size), target.data()};
  for (const DcpPiece& piece : PlanDcpRead(*tensor, wanted)) {
    LR_TRY(ReadPiece(piece, place)
               .WithContext("checkpoint '{}': '{}': the block at [{}] in '{}'",
                            path_.string(),
                            key,
                            fmt::join(piece.chunk->offsets, ", "),
                            piece.chunk->location.file));
  }
  return {};
}

Status DcpDirectory::ReadPiece(const DcpPiece& piece, const Target& target) {
  const DcpChunk& chunk = *piece.chunk;
  const DcpDtype& dtype = *target.tensor->dtype;
  LR_ASSIGN(const PositionedFile* file, FileOf(chunk.location));
  LR_ASSIGN(const DcpTensorItem item, OpenDcpTensorItem(*file, chunk, dtype));
  if (item.data_bytes == 0) {
    return {};
  }
  if (!IsContiguous(item.layout.sizes, item.layout.strides)) {
    return ReadForeignStrides(*file, item, piece, target);
  }
  if (!IsFullWidth(*target.tensor, chunk)) {
    return ReadThroughBuffer(*file, item, piece, target);
  }
  const auto row_bytes = static_cast<uint64_t>(RowElements(chunk.sizes) * dtype.bytes);
  const uint64_t bytes = static_cast<uint64_t>(piece.rows) * row_bytes;
  std::byte* place = target.memory + static_cast<uint64_t>(piece.target_row) * row_bytes;
  const uint64_t skipped = static_cast<uint64_t>(piece.first_row) * row_bytes;
  LR_TRY(file->Read(place, bytes, item.data_offset + skipped));
  return bytes == item.data_bytes ? CheckCrc(item, chunk.location, CrcOf(0, place, bytes))
                                  : Status();
}

/// Rows of a block that is narrower than the tensor, a buffer at a time.
Status DcpDirectory::ReadThroughBuffer(const PositionedFile& file,
                                       const DcpTensorItem& item,
                                       const DcpPiece& piece,
                                       const Target& target) {
  const DcpChunk& chunk = *piece.chunk;
  const int64_t element_bytes = target.tensor->dtype->bytes;
  const int64_t row_bytes = RowElements(chunk.sizes) * element_bytes;
  const int64_t at_once = std::clamp<int64_t>(kBufferBytes / row_bytes, 1, piece.rows);
  std::vector<std::byte> buffer(static_cast<size_t>(at_once * row_bytes));
  uint32_t crc = 0;
  for (int64_t done = 0; done < piece.rows; done += at_once) {
    const int64_t rows = std::min(at_once, piece.rows - done);
    const auto bytes = static_cast<uint64_t>(rows * row_bytes);
    const auto skipped = static_cast<uint64_t>((piece.first_row + done) * row_bytes);
    LR_TRY(file.Read(buffer.data(), bytes, item.data_offset + skipped));
    crc = CrcOf(crc, buffer.data(), bytes);
    const std::vector<int64_t> box = BoxOf(chunk, rows);
    std::byte* place =
        target.memory + PlaceOf(chunk, piece.target_row + done, target.strides) * element_bytes;
    CopyStrided(box, element_bytes, buffer.data(), ContiguousStrides(box), place, target.strides);
  }
  const auto read = static_cast<uint64_t>(piece.rows * row_bytes);
  return read == item.data_bytes ? CheckCrc(item, chunk.location, crc) : Status();
}

/// The item's storage is read whole, then rearranged.
Status DcpDirectory::ReadForeignStrides(const PositionedFile& file,
                                        const DcpTensorItem& item,
                                        const DcpPiece& piece,
                                        const Target& target) {
  const DcpChunk& chunk = *piece.chunk;
  const int64_t element_bytes = target.tensor->dtype->bytes;
  std::vector<std::byte> storage(item.data_bytes);
  LR_TRY(file.Read(storage.data(), item.data_bytes, item.data_offset));
  LR_TRY(CheckCrc(item, chunk.location, CrcOf(0, storage.data(), item.data_bytes)));
  const int64_t first = item.layout.offset + piece.first_row * item.layout.strides[0];
  CopyStrided(BoxOf(chunk, piece.rows),
              element_bytes,
              storage.data() + first * element_bytes,
              item.layout.strides,
              target.memory + PlaceOf(chunk, piece.target_row, target.strides) * element_bytes,
              target.strides);
  return {};
}

/// `crc`: of the item's whole storage.
Status DcpDirectory::CheckCrc(const DcpTensorItem& item,
                              const DcpLocation& location,
                              uint32_t crc) {
  if (crc == item.crc) {
    return {};
  }
  const std::string what = fmt::format("the item at {} of '{}' has checksum {:08x}, not {:08x}",
                                       location.offset,
                                       location.file,
                                       crc,
                                       item.crc);
  if (checksums_ == DcpChecksums::kRefuseMismatch) {
    return DataLoss("{}", what);
  }
  notes_.push_back(what);
  return {};
}

Result<DcpValue> DcpDirectory::ReadValue(const std::string& key) {
  const auto found = metadata_.values.find(key);
  if (found == metadata_.values.end()) {
    return NotFound("checkpoint '{}' has no value '{}'", path_.string(), key);
  }
  LR_ASSIGN(const PositionedFile* file, FileOf(found->second));
  return ReadDcpValueItem(*file, found->second)
      .WithContext("checkpoint '{}': '{}'", path_.string(), key);
}

Status DcpDirectory::VerifyItems(const std::function<void(uint64_t bytes)>& progress) {
  const auto verify = [&](const std::string& key, const DcpLocation& location) {
    const Status checked = [&]() -> Status {
      LR_ASSIGN(const PositionedFile* file, FileOf(location));
      return CheckDcpItemChecksums(*file, location);
    }();
    progress(location.length);
    return checked.WithContext("checkpoint '{}': '{}': the item at {} of '{}'",
                               path_.string(),
                               key,
                               location.offset,
                               location.file);
  };
  for (const auto& [key, tensor] : metadata_.tensors) {
    for (const DcpChunk& chunk : tensor.chunks) {
      LR_ASSIGN(const PositionedFile* file, FileOf(chunk.location));
      LR_TRY(OpenDcpTensorItem(*file, chunk, *tensor.dtype)
                 .WithContext(
                     "checkpoint '{}': '{}': '{}'", path_.string(), key, chunk.location.file));
      LR_TRY(verify(key, chunk.location));
    }
  }
  for (const auto& [key, location] : metadata_.values) {
    LR_TRY(ReadValue(key));
    LR_TRY(verify(key, location));
  }
  return {};
}

}  // namespace lr::worker
