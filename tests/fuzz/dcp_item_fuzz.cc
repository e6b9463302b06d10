// libFuzzer target: any bytes as an item of a shard file: the archive's directory, its records'
// places, and the bytes as a value's pickle. Everything must answer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/checkpoint/dcp/archive_index.h"
#include "worker/checkpoint/dcp/dcp_value.h"
#include "worker/pickle/tensor_pickle.h"

namespace {

void WalkArchive(std::string_view bytes) {
  using namespace lr::worker;
  const size_t tail = std::min<size_t>(bytes.size(), kArchiveTail);
  const auto directory = FindArchiveDirectory(bytes.substr(bytes.size() - tail), bytes.size());
  if (!directory.ok()) {
    return;
  }
  const auto records = ParseArchiveDirectory(bytes.substr(directory->offset, directory->bytes));
  for (size_t i = 0; records.ok() && i < records->size(); ++i) {
    const ArchiveRecord& record = (*records)[i];
    if (record.header_offset > bytes.size()) {
      continue;
    }
    const auto offset = ArchiveDataOffset(
        bytes.substr(record.header_offset, kArchiveHeaderBytes), record, directory->offset);
    if (offset.ok() && record.size > bytes.size() - *offset) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  WalkArchive(bytes);
  const auto value = lr::worker::ParseDcpValue(bytes);
  if (value.ok() && !lr::worker::ParseDcpValue(lr::worker::PickleDcpValue(*value)).ok()) {
    std::abort();
  }
  const auto tensor = lr::worker::ParseSingleTensorPickle(bytes);
  return tensor.ok() && tensor->tensors.size() != 1 ? -1 : 0;
}
