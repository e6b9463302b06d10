// The archive's directory first, then the few records that matter.
#include "worker/checkpoint/dcp/dcp_item.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "worker/checkpoint/dcp/archive_index.h"
#include "worker/checkpoint/durable_file.h"

namespace lr::worker {
namespace {

constexpr uint64_t kLargestPickle = uint64_t{16} << 20;
constexpr uint64_t kLargestWord = 16;  // byteorder, version
constexpr uint64_t kReadAtOnce = uint64_t{4} << 20;

class ItemArchive {
 public:
  static Result<ItemArchive> Open(const PositionedFile& file, const DcpLocation& location) {
    ItemArchive archive(file, location);
    const uint64_t tail = std::min(location.length, kArchiveTail);
    LR_ASSIGN(const std::string end, archive.Bytes(location.length - tail, tail));
    LR_ASSIGN(const ArchiveDirectory directory, FindArchiveDirectory(end, location.length));
    LR_ASSIGN(const std::string entries, archive.Bytes(directory.offset, directory.bytes));
    LR_ASSIGN(archive.records_, ParseArchiveDirectory(entries));
    archive.limit_ = directory.offset;
    LR_TRY(archive.CheckWords());
    return archive;
  }

  const ArchiveRecord* Find(std::string_view name) const {
    const auto found = std::find_if(
        records_.begin(), records_.end(), [&](const auto& record) { return record.name == name; });
    return found == records_.end() ? nullptr : &*found;
  }

  const std::vector<ArchiveRecord>& records() const { return records_; }

  /// Of a record's bytes, as they are.
  Result<uint32_t> Checksum(const ArchiveRecord& record) const {
    LR_ASSIGN(const uint64_t begin, DataOffset(record));
    std::string buffer(std::min(record.size, kReadAtOnce), '\0');
    uint32_t crc = 0;
    for (uint64_t done = 0; done < record.size; done += kReadAtOnce) {
      const uint64_t bytes = std::min(record.size - done, kReadAtOnce);
      LR_TRY(file_->Read(buffer.data(), bytes, begin + done));
      crc = UpdateCrc32(crc, std::string_view(buffer).substr(0, bytes));
    }
    return crc;
  }

  /// Where a record's bytes begin, within the file.
  Result<uint64_t> DataOffset(const ArchiveRecord& record) const {
    if (record.header_offset > limit_ || limit_ - record.header_offset < kArchiveHeaderBytes) {
      return InvalidArgument("archive: record '{}' lies outside", record.name);
    }
    LR_ASSIGN(const std::string header, Bytes(record.header_offset, kArchiveHeaderBytes));
    LR_ASSIGN(const uint64_t offset, ArchiveDataOffset(header, record, limit_));
    return location_.offset + offset;
  }

  Result<std::string> Read(std::string_view name, uint64_t limit) const {
    const ArchiveRecord* record = Find(name);
    if (record == nullptr || record->size > limit) {
      return InvalidArgument("archive: no record '{}' of at most {} bytes", name, limit);
    }
    LR_ASSIGN(const uint64_t offset, DataOffset(*record));
    return Bytes(offset - location_.offset, record->size);
  }

 private:
  ItemArchive(const PositionedFile& file, const DcpLocation& location)
      : file_(&file), location_(location) {}

  Result<std::string> Bytes(uint64_t offset, uint64_t count) const {
    std::string bytes(count, '\0');
    LR_TRY(file_->Read(bytes.data(), count, location_.offset + offset));
    return bytes;
  }

  Status CheckWords() const {
    LR_ASSIGN(const std::string version, Read("version", kLargestWord));
    if (version.empty() || version[0] < '1' || version[0] > '9') {
      return InvalidArgument("archive: version '{}'", version);
    }
    if (Find("byteorder") == nullptr) {
      return {};  // written before torch 2.1
    }
    LR_ASSIGN(const std::string order, Read("byteorder", kLargestWord));
    return order == "little" ? Status() : Unimplemented("archive: written on a big-endian machine");
  }

  const PositionedFile* file_;
  DcpLocation location_;
  std::vector<ArchiveRecord> records_;
  uint64_t limit_ = 0;
};

/// Every element of the view lies within a storage of as many elements.
Status CheckLayout(const PickledTensor& layout, const PickledStorage& storage, int64_t elements) {
  int64_t last = layout.offset;
  bool is_inside = storage.numel == elements && layout.offset >= 0;
  for (size_t i = 0; is_inside && elements > 0 && i < layout.sizes.size(); ++i) {
    int64_t reach = 0;
    is_inside = layout.strides[i] >= 0 &&
                !__builtin_mul_overflow(layout.sizes[i] - 1, layout.strides[i], &reach) &&
                !__builtin_add_overflow(last, reach, &last);
  }
  if (!is_inside || (elements > 0 && last >= elements)) {
    return InvalidArgument("the item's strides [{}] do not fit its storage of {} elements",
                           fmt::join(layout.strides, ", "),
                           storage.numel);
  }
  return {};
}

Status CheckAgainst(const DcpTensorItem& item, const DcpChunk& chunk, const DcpDtype& dtype) {
  if (item.storage.type != dtype.storage) {
    return InvalidArgument("the item is a {}, the metadata says {}", item.storage.type, dtype.name);
  }
  if (item.layout.sizes != chunk.sizes) {
    return InvalidArgument("the item's shape is [{}], the metadata says [{}]",
                           fmt::join(item.layout.sizes, ", "),
                           fmt::join(chunk.sizes, ", "));
  }
  LR_ASSIGN(const int64_t elements, DcpVolume(chunk.sizes));
  LR_TRY(CheckLayout(item.layout, item.storage, elements));
  if (item.data_bytes != static_cast<uint64_t>(elements * dtype.bytes)) {
    return InvalidArgument("the item has {} bytes for {} elements", item.data_bytes, elements);
  }
  return {};
}

}  // namespace

Result<DcpTensorItem> OpenDcpTensorItem(const PositionedFile& file,
                                        const DcpChunk& chunk,
                                        const DcpDtype& dtype) {
  if (dtype.storage.empty()) {
    return Unimplemented("tensors of type {} are not read here", dtype.name);
  }
  LR_ASSIGN(const ItemArchive archive, ItemArchive::Open(file, chunk.location));
  LR_ASSIGN(const std::string pickle, archive.Read("data.pkl", kLargestPickle));
  LR_ASSIGN(PickledTensors pickled, ParseSingleTensorPickle(pickle));
  DcpTensorItem item;
  item.layout = std::move(pickled.tensors[0]);
  item.storage = std::move(pickled.storages[item.layout.storage]);
  const ArchiveRecord* data = archive.Find("data/" + item.storage.key);
  if (data == nullptr) {
    return InvalidArgument("archive: no record 'data/{}'", item.storage.key);
  }
  LR_ASSIGN(item.data_offset, archive.DataOffset(*data));
  item.data_bytes = data->size;
  item.crc = data->crc;
  LR_TRY(CheckAgainst(item, chunk, dtype));
  return item;
}

Status CheckDcpItemChecksums(const PositionedFile& file, const DcpLocation& location) {
  LR_ASSIGN(const ItemArchive archive, ItemArchive::Open(file, location));
  for (const ArchiveRecord& record : archive.records()) {
    LR_ASSIGN(const uint32_t crc, archive.Checksum(record));
    if (crc != record.crc) {
      return DataLoss("record '{}' has checksum {:08x}, not {:08x}", record.name, crc, record.crc);
    }
  }
  return {};
}

Result<DcpValue> ReadDcpValueItem(const PositionedFile& file, const DcpLocation& location) {
  LR_ASSIGN(const ItemArchive archive, ItemArchive::Open(file, location));
  LR_ASSIGN(const std::string pickle, archive.Read("data.pkl", kLargestPickle));
  return ParseDcpValue(pickle);
}

}  // namespace lr::worker
