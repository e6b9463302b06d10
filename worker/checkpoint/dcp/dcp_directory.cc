// Whole rows go straight into the result; blocks that are narrower than the tensor go through a
// buffer.
#include "worker/checkpoint/dcp/dcp_directory.h"

#include <algorithm>
#include <map>

#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include "worker/checkpoint/dcp/dcp_metadata_parser.h"
#include "worker/checkpoint/dcp/dcp_tensor_type.h"
#include "worker/checkpoint/durable_file.h"

namespace lr::worker {
namespace {

constexpr uint64_t kLargestMetadata = uint64_t{256} << 20;
constexpr int64_t kBufferBytes = int64_t{16} << 20;

/// Bytes of one row of a block.
int64_t RowBytes(const DcpChunk& chunk, const DcpDtype& dtype) {
  int64_t bytes = dtype.bytes;
  for (size_t i = 1; i < chunk.sizes.size(); ++i) {
    bytes *= chunk.sizes[i];
  }
  return bytes;
}

bool IsFullWidth(const DcpTensor& tensor, const DcpChunk& chunk) {
  return tensor.size.size() < 2 ||
         std::equal(tensor.size.begin() + 1, tensor.size.end(), chunk.sizes.begin() + 1);
}

bool IsContiguous(const PickledTensor& layout) {
  int64_t expected = 1;
  for (size_t i = layout.sizes.size(); i > 0; --i) {
    if (layout.sizes[i - 1] != 1 && layout.strides[i - 1] != expected) {
      return false;
    }
    expected *= layout.sizes[i - 1];
  }
  return true;
}

/// The part of `target` that rows of a block fill.
at::Tensor BoxOf(const at::Tensor& target, const DcpChunk& chunk, int64_t first_row, int64_t rows) {
  if (chunk.sizes.empty()) {
    return target;
  }
  at::Tensor box = target.narrow(0, first_row, rows);
  for (size_t i = 1; i < chunk.sizes.size(); ++i) {
    box = box.narrow(static_cast<int64_t>(i), chunk.offsets[i], chunk.sizes[i]);
  }
  return box;
}

/// Rows of a block that is narrower than the tensor, a buffer at a time.
Status ReadThroughBuffer(const PositionedFile& file,
                         const DcpTensorItem& item,
                         const DcpPiece& piece,
                         int64_t row_bytes,
                         at::Tensor& target) {
  const int64_t at_once = std::max<int64_t>(kBufferBytes / row_bytes, 1);
  for (int64_t done = 0; done < piece.rows; done += at_once) {
    const int64_t rows = std::min(at_once, piece.rows - done);
    std::vector<int64_t> shape = piece.chunk->sizes;
    shape[0] = rows;
    const at::Tensor buffer = at::empty(shape, target.options());
    const auto skipped = static_cast<uint64_t>((piece.first_row + done) * row_bytes);
    LR_TRY(file.Read(buffer.mutable_data_ptr(), buffer.nbytes(), item.data_offset + skipped));
    BoxOf(target, *piece.chunk, piece.target_row + done, rows).copy_(buffer);
  }
  return {};
}

/// The item's storage as it is.
Result<at::Tensor> ReadStorage(const PositionedFile& file,
                               const DcpTensorItem& item,
                               const at::TensorOptions& options) {
  at::Tensor flat = at::empty({item.storage.numel}, options);
  LR_TRY(file.Read(flat.mutable_data_ptr(), item.data_bytes, item.data_offset));
  return flat;
}

}  // namespace

Result<DcpDirectory> DcpDirectory::Open(const std::filesystem::path& path, DcpChecksums checksums) {
  const auto open = [&]() -> Result<DcpDirectory> {
    LR_ASSIGN(const PositionedFile file, PositionedFile::Open(path / ".metadata"));
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

Result<at::Tensor> DcpDirectory::Read(const std::string& key) {
  LR_ASSIGN(const DcpTensor* tensor, Find(key));
  return ReadRows(key, {0, tensor->size.empty() ? 1 : tensor->size[0]});
}

Result<at::Tensor> DcpDirectory::ReadRows(const std::string& key, DcpRows wanted) {
  LR_ASSIGN(const DcpTensor* tensor, Find(key));
  const int64_t rows = tensor->size.empty() ? 1 : tensor->size[0];
  if (wanted.first < 0 || wanted.count < 0 || wanted.first > rows ||
      wanted.count > rows - wanted.first) {
    return InvalidArgument("rows [{}, {}) of tensor '{}', which has {}",
                           wanted.first,
                           wanted.first + wanted.count,
                           key,
                           rows);
  }
  return ReadPieces(*tensor, wanted).WithContext("checkpoint '{}': '{}'", path_.string(), key);
}

Result<at::Tensor> DcpDirectory::ReadPieces(const DcpTensor& tensor, DcpRows wanted) {
  const std::optional<c10::ScalarType> type = ScalarTypeOf(*tensor.dtype);
  if (!type) {
    return Unimplemented("tensors of type {} are not read here", tensor.dtype->name);
  }
  std::vector<int64_t> shape = tensor.size;
  if (!shape.empty()) {
    shape[0] = wanted.count;
  }
  at::Tensor target = at::empty(shape, *type);
  for (const DcpPiece& piece : PlanDcpRead(tensor, wanted)) {
    LR_TRY(ReadPiece(tensor, piece, target)
               .WithContext("the block at [{}] in '{}'",
                            fmt::join(piece.chunk->offsets, ", "),
                            piece.chunk->location.file));
  }
  return target;
}

Status DcpDirectory::ReadPiece(const DcpTensor& tensor, const DcpPiece& piece, at::Tensor& target) {
  const DcpChunk& chunk = *piece.chunk;
  LR_ASSIGN(const PositionedFile* file, FileOf(chunk.location));
  LR_ASSIGN(const DcpTensorItem item, OpenDcpTensorItem(*file, chunk, *tensor.dtype));
  const int64_t row_bytes = RowBytes(chunk, *tensor.dtype);
  if (!IsContiguous(item.layout)) {
    LR_ASSIGN(const at::Tensor flat, ReadStorage(*file, item, target.options()));
    LR_TRY(CheckCrc(item, chunk.location, flat));
    const at::Tensor block =
        flat.as_strided(item.layout.sizes, item.layout.strides, item.layout.offset);
    BoxOf(target, chunk, piece.target_row, piece.rows)
        .copy_(block.narrow(0, piece.first_row, piece.rows));
    return {};
  }
  if (!IsFullWidth(tensor, chunk)) {
    return ReadThroughBuffer(*file, item, piece, row_bytes, target);
  }
  const at::Tensor box = BoxOf(target, chunk, piece.target_row, piece.rows);
  const auto skipped = static_cast<uint64_t>(piece.first_row * row_bytes);
  LR_TRY(file->Read(box.mutable_data_ptr(), box.nbytes(), item.data_offset + skipped));
  return box.nbytes() == item.data_bytes ? CheckCrc(item, chunk.location, box) : Status();
}

/// `data`: the item's storage, whole.
Status DcpDirectory::CheckCrc(const DcpTensorItem& item,
                              const DcpLocation& location,
                              const at::Tensor& data) {
  const uint32_t crc =
      UpdateCrc32(0, {static_cast<const char*>(data.const_data_ptr()), data.nbytes()});
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

}  // namespace lr::worker
