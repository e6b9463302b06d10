#pragma once
/// Writes distributed checkpoints for tests without LibTorch: items of any blocks and strides, a
/// zip archive each, as torch lays them out but for padding. Header only; failures abort the test.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/dcp/dcp_metadata_writer.h"
#include "worker/checkpoint/dcp/dcp_value.h"
#include "worker/checkpoint/dcp/strided_copy.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/pickle/pickle_writer.h"

namespace lr::testing {

class DcpMaker {
 public:
  explicit DcpMaker(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  /// Declares a tensor; its path is its key, split at the first dot.
  void Tensor(const std::string& key, const char* dtype, std::vector<int64_t> size) {
    worker::DcpTensor& tensor = metadata_.tensors[key];
    tensor.dtype = worker::FindDcpDtype(dtype);
    tensor.size = std::move(size);
    SetPath(key);
  }

  /// A block of it; `bytes`: its storage, in the order of `strides` (empty: contiguous).
  void Block(const std::string& key,
             int rank,
             std::vector<int64_t> offsets,
             std::vector<int64_t> sizes,
             std::string_view bytes,
             std::vector<int64_t> strides = {}) {
    worker::DcpTensor& tensor = metadata_.tensors.at(key);
    if (strides.empty()) {
      strides = worker::ContiguousStrides(sizes);
    }
    const std::string pickle = TensorPickle(*tensor.dtype, sizes, strides);
    worker::DcpChunk chunk{std::move(offsets), std::move(sizes), Item(rank, pickle, &bytes)};
    tensor.chunks.push_back(std::move(chunk));
  }

  void Value(const std::string& key, const worker::DcpValue& value) {
    metadata_.values[key] = Item(0, worker::PickleDcpValue(value), nullptr);
    SetPath(key);
  }

  void Finish() {
    std::ofstream(folder_ / ".metadata", std::ios::binary)
        << worker::EncodeDcpMetadata(metadata_, "test");
  }

  worker::DcpMetadata& metadata() { return metadata_; }

 private:
  struct Record {
    std::string name;
    std::string_view bytes;
    uint32_t crc;
    uint64_t place;
  };

  static std::string Little(uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text.push_back(static_cast<char>(value >> (8 * i)));
    }
    return text;
  }

  static std::string Common(const Record& record) {
    return Little(0, 2) + Little(0, 2) + Little(0, 4) + Little(record.crc, 4) +
           Little(record.bytes.size(), 4) + Little(record.bytes.size(), 4) +
           Little(record.name.size(), 2);
  }

  static std::string TensorPickle(const worker::DcpDtype& dtype,
                                  const std::vector<int64_t>& sizes,
                                  const std::vector<int64_t>& strides) {
    int64_t elements = 1;
    for (const int64_t size : sizes) {
      elements *= size;
    }
    worker::PickleWriter writer;
    writer.Global("torch._utils._rebuild_tensor_v2");
    writer.Mark();
    writer.Mark();
    writer.Text("storage");
    writer.Global(fmt::format("torch.{}", dtype.storage));
    writer.Text("0");
    writer.Text("cpu");
    writer.Integer(elements);
    writer.TupleFromMark();
    writer.Persistent();
    writer.Integer(0);
    writer.Integers(sizes);
    writer.Integers(strides);
    writer.Bool(false);
    writer.Global("collections.OrderedDict");
    writer.Tuple(0);
    writer.Call();
    writer.TupleFromMark();
    writer.Call();
    return std::move(writer).Finish();
  }

  void SetPath(const std::string& key) {
    const size_t dot = key.find('.');
    metadata_.paths[key] = dot == std::string::npos
                               ? worker::DcpPath{key}
                               : worker::DcpPath{key.substr(0, dot), key.substr(dot + 1)};
  }

  worker::DcpLocation Item(int rank, const std::string& pickle, const std::string_view* data) {
    const std::string name = fmt::format("__{}_0.distcp", rank);
    std::ofstream file(folder_ / name, std::ios::binary | std::ios::app);
    file.seekp(0, std::ios::end);
    const auto begin = static_cast<uint64_t>(file.tellp());
    std::vector<Record> records = {{"archive/data.pkl", pickle, 0, 0},
                                   {"archive/byteorder", "little", 0, 0}};
    if (data != nullptr) {
      records.push_back({"archive/data/0", *data, 0, 0});
    }
    records.push_back({"archive/version", "3\n", 0, 0});
    for (Record& record : records) {
      record.crc = worker::UpdateCrc32(0, record.bytes);
      record.place = static_cast<uint64_t>(file.tellp()) - begin;
      file << "PK\3\4" << Little(0, 2) << Common(record) << Little(0, 2) << record.name;
      file.write(record.bytes.data(), static_cast<std::streamsize>(record.bytes.size()));
    }
    const uint64_t directory = static_cast<uint64_t>(file.tellp()) - begin;
    for (const Record& record : records) {
      file << "PK\1\2" << Little(0, 2) << Little(0, 2) << Common(record) << Little(0, 2)
           << Little(0, 2) << Little(0, 2) << Little(0, 2) << Little(0, 4)
           << Little(record.place, 4) << record.name;
    }
    const uint64_t end = static_cast<uint64_t>(file.tellp()) - begin;
    file << "PK\5\6" << Little(0, 4) << Little(records.size(), 2) << Little(records.size(), 2)
         << Little(end - directory, 4) << Little(directory, 4) << Little(0, 2);
    return {name, begin, static_cast<uint64_t>(file.tellp()) - begin};
  }

  std::filesystem::path folder_;
  worker::DcpMetadata metadata_;
};

}  // namespace lr::testing
