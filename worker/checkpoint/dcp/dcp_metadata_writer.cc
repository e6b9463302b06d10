// (pure) The objects of 4.2.2 in the order in which torch writes their attributes.
#include "worker/checkpoint/dcp/dcp_metadata_writer.h"

#include "worker/checkpoint/dcp/dcp_names.h"
#include "worker/pickle/pickle_writer.h"

namespace lr::worker {
namespace {

class MetadataEncoder {
 public:
  std::string Encode(const DcpMetadata& metadata, const std::string& save_id) && {
    Object(dcp::kMetadata);
    writer_.Text("state_dict_metadata");
    StateDict(metadata);
    writer_.Text("planner_data");
    Paths(metadata);
    writer_.Text("storage_data");
    Storage(metadata);
    writer_.Text("storage_meta");
    StorageMeta(save_id);
    writer_.Text("version");
    writer_.Text("1.0.0");
    EndObject();
    return std::move(writer_).Finish();
  }

 private:
  /// Attributes follow as texts and values, until EndObject().
  void Object(std::string_view name) {
    writer_.Global(name);
    writer_.Tuple(0);
    writer_.NewObject();
    writer_.EmptyDict();
    writer_.Mark();
  }

  void EndObject() {
    writer_.SetItemsFromMark();
    writer_.Build();
  }

  void Size(std::string_view name, std::span<const int64_t> sizes) {
    writer_.Text(name);
    writer_.Global(dcp::kSize);
    writer_.Integers(sizes);
    writer_.Tuple(1);
    writer_.Call();
  }

  void Properties(const DcpDtype& dtype) {
    writer_.Text("properties");
    writer_.Global(dcp::kProperties);
    writer_.Tuple(0);
    writer_.NewObject();
    writer_.Mark();
    writer_.Global(dtype.name);
    writer_.Global(dcp::kLayout);
    writer_.Text(dcp::kStrided);
    writer_.Tuple(1);
    writer_.Call();
    writer_.Bool(false);  // requires_grad
    writer_.Global(dcp::kMemoryFormat);
    writer_.Integer(0);  // contiguous
    writer_.Tuple(1);
    writer_.Call();
    writer_.Bool(false);  // pin_memory
    writer_.TupleFromMark();
    writer_.Build();
  }

  void Tensor(const DcpTensor& tensor) {
    Object(dcp::kTensor);
    Properties(*tensor.dtype);
    Size("size", tensor.size);
    writer_.Text("chunks");
    writer_.EmptyList();
    writer_.Mark();
    for (const DcpChunk& chunk : tensor.chunks) {
      Object(dcp::kChunk);
      Size("offsets", chunk.offsets);
      Size("sizes", chunk.sizes);
      EndObject();
    }
    writer_.AppendsFromMark();
    EndObject();
  }

  void StateDict(const DcpMetadata& metadata) {
    writer_.EmptyDict();
    writer_.Mark();
    for (const auto& [key, tensor] : metadata.tensors) {
      writer_.Text(key);
      Tensor(tensor);
    }
    for (const auto& [key, location] : metadata.values) {
      writer_.Text(key);
      writer_.Global(dcp::kBytes);
      writer_.Tuple(0);
      writer_.NewObject();
    }
    writer_.SetItemsFromMark();
  }

  void Paths(const DcpMetadata& metadata) {
    writer_.EmptyDict();
    writer_.Mark();
    for (const auto& [key, path] : metadata.paths) {
      writer_.Text(key);
      writer_.Mark();
      for (const auto& part : path) {
        if (const auto* index = std::get_if<int64_t>(&part)) {
          writer_.Integer(*index);
        } else {
          writer_.Text(std::get<std::string>(part));
        }
      }
      writer_.TupleFromMark();
    }
    writer_.SetItemsFromMark();
  }

  /// One entry; `place` is the chunk's position among the tensor's, null for a value.
  void StorageEntry(const std::string& key,
                    const DcpLocation& location,
                    const DcpChunk* chunk,
                    size_t place) {
    Object(dcp::kIndex);
    writer_.Text("fqn");
    writer_.Text(key);
    if (chunk != nullptr) {
      Size("offset", chunk->offsets);
    }
    writer_.Text("index");
    if (chunk != nullptr) {
      writer_.Integer(static_cast<int64_t>(place));
    } else {
      writer_.None();
    }
    EndObject();
    Object(dcp::kStorageInfo);
    writer_.Text("relative_path");
    writer_.Text(location.file);
    writer_.Text("offset");
    writer_.Integer(static_cast<int64_t>(location.offset));
    writer_.Text("length");
    writer_.Integer(static_cast<int64_t>(location.length));
    EndObject();
  }

  void Storage(const DcpMetadata& metadata) {
    writer_.EmptyDict();
    writer_.Mark();
    for (const auto& [key, tensor] : metadata.tensors) {
      for (size_t i = 0; i < tensor.chunks.size(); ++i) {
        StorageEntry(key, tensor.chunks[i].location, &tensor.chunks[i], i);
      }
    }
    for (const auto& [key, location] : metadata.values) {
      StorageEntry(key, location, nullptr, 0);
    }
    writer_.SetItemsFromMark();
  }

  void StorageMeta(const std::string& save_id) {
    Object(dcp::kStorageMeta);
    writer_.Text("checkpoint_id");
    writer_.None();
    writer_.Text("save_id");
    writer_.Text(save_id);
    writer_.Text("load_id");
    writer_.None();
    writer_.Text("modules");
    writer_.EmptyList();
    EndObject();
  }

  PickleWriter writer_;
};

}  // namespace

std::string EncodeDcpMetadata(const DcpMetadata& metadata, const std::string& save_id) {
  return MetadataEncoder().Encode(metadata, save_id);
}

}  // namespace lr::worker
